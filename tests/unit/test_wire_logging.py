"""The log of requests and answers: nothing of a secret is in it, and all the rest is."""

import json
import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk._http.log_events import wire
from tradesdk._http.wire_logging import HIDDEN, LoggedExchange, cut, is_secret, redacted

from .._texts import texts

KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=40)
SIGNATURE = "0x" + "ab" * 64 + "1b"
TRANSACTION = "0x" + "cd" * 32


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def said() -> Iterator[list[logging.LogRecord]]:
    kept = Kept()
    wire.addHandler(kept)
    wire.setLevel(logging.DEBUG)
    yield kept.records
    wire.setLevel(logging.NOTSET)
    wire.removeHandler(kept)


def exchange(
    headers: list[tuple[str, str]], body: bytes | None = None, url: str = "https://api.test/v1/x"
) -> LoggedExchange:
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return LoggedExchange("POST", url, pairs, body, iter([0.0, 0.25, 1.0]).__next__)


def everything(records: list[logging.LogRecord]) -> str:
    return "".join(record.getMessage() + json.dumps(record.wire) for record in records)  # type: ignore[attr-defined]


@given(KEYS, st.lists(KEYS, max_size=3), texts(max_size=20))
def test_no_secret_survives(key: str, others: list[str], around: str) -> None:
    secrets = [key, *others]
    forms = [key, json.dumps(key)[1:-1], quote(key, safe=""), key.replace("/", "\\/")]
    for form in forms:
        for text in (f"{around}{form}{around}", f"{form}{form}", f'{{"a":"{form}"}}', around + "".join(secrets)):
            shown = redacted(text, secrets)
            assert not any(form in shown for form in forms), (text, shown)


@given(texts(max_size=200))
def test_where_there_is_no_secret_nothing_is_taken_away(text: str) -> None:
    assert redacted(text, []) == text


def test_what_is_a_secret_by_its_looks() -> None:
    assert redacted(f"a {SIGNATURE} b", []) == f"a 0x{HIDDEN} b"
    assert redacted(SIGNATURE[2:], []) == HIDDEN
    assert redacted(TRANSACTION, []) == TRANSACTION, "a transaction can be looked up by everybody"
    for name in ("signature", "api_key", "apiKey", "password", "private_key", "access_token"):
        assert redacted(f'{{"{name}": "a\\"b", "id": "c"}}', []) == f'{{"{name}": "{HIDDEN}", "id": "c"}}'
        assert redacted(f'{{"{name}":"cut sho', []) == f'{{"{name}":"{HIDDEN}'
    assert (
        redacted('{"api_key_last4":"abcd","token_symbol":"ETH"}', []) == '{"api_key_last4":"abcd","token_symbol":"ETH"}'
    )


def test_which_headers_are_nobodys_business() -> None:
    for name in ("Authorization", "PAYMENT-SIGNATURE", "Cookie", "Set-Cookie", "X-Api-Key"):
        assert is_secret(name)
        assert is_secret(name.lower())
    for name in ("Content-Type", "PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "WWW-Authenticate", "Retry-After"):
        assert not is_secret(name)


def test_a_request_and_its_answer(said: list[logging.LogRecord]) -> None:
    sent = [
        ("Authorization", "Bearer MARKED-KEY"),
        ("PAYMENT-SIGNATURE", "MARKED+PAYMENT=="),
        ("Cookie", "s=MARKED-COOKIE"),
    ]
    body = b'{"label":"l","signature":"MARKED-SIGNATURE","about":"MARKED-KEY"}'
    looked = exchange([*sent, ("Accept", "a"), ("Accept", "b")], body, "https://api.test/v1/x?key=MARKED-KEY")
    answer = {"x-echo": "MARKED-KEY", "set-cookie": "MARKED", "content-type": "text/plain", "x-p": "MARKED+PAYMENT=="}
    looked.answered(200, answer, b"you are MARKED-KEY, MARKED-COOKIE, MARKED+PAYMENT==\xff")
    looked.failed("lost at https://MARKED-KEY@x")
    assert "MARKED-" not in everything(said)
    assert "MARKED+" not in everything(said)
    request, answered, failure = (record.wire for record in said)  # type: ignore[attr-defined]
    assert request == {
        "event": "request",
        "method": "POST",
        "url": f"https://api.test/v1/x?key={HIDDEN}",
        "headers": {"authorization": HIDDEN, "payment-signature": HIDDEN, "cookie": HIDDEN, "accept": "a, b"},
        "body": f'{{"label":"l","signature":"{HIDDEN}","about":"{HIDDEN}"}}',
        "bytes": len(body),
    }
    assert (answered["status"], answered["seconds"], answered["headers"]["content-type"]) == (200, 0.25, "text/plain")
    assert (failure["event"], failure["seconds"]) == ("failure", 1.0)
    lines = said[1].getMessage().splitlines()
    assert lines[0] == f"POST https://api.test/v1/x?key={HIDDEN}: 200 in 250 ms"
    assert f"x-echo: {HIDDEN}" in lines
    assert said[2].getMessage().endswith("(after 1000 ms)")


def test_long_bodies_are_cut_in_the_text_only(said: list[logging.LogRecord]) -> None:
    exchange([]).answered(200, {}, b"x" * 10_000)
    assert len(said[-1].getMessage()) < 4_300
    assert said[-1].getMessage().endswith("… (5,904 more bytes)")
    assert len(said[-1].wire["body"]) == 10_000  # type: ignore[attr-defined]
    assert cut("é" * 3, 4) == "éé… (2 more bytes)"
    assert cut("as it is") == "as it is"


def test_a_secret_at_the_cut_leaves_no_piece(said: list[logging.LogRecord]) -> None:
    exchange([("Authorization", "Bearer MARKED-KEY")]).answered(200, {}, b"x" * 4_090 + b"MARKED-KEY")
    assert "MARK" not in everything(said)
