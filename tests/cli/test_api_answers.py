"""`trade api`: what is said of answers never holds a key, and what is paid for is known before."""

import json
import signal

import pytest

from tradesdk_cli.wallet import Wallet
from tradesdk_mock import MockServer

from .._rows import each_of
from ._services import Scripted
from ._settings import configured
from ._terminal import Terminal

PRICES = ("api", "/v1/token-prices", "-f", "tokens[].identifier=ETH", "--pay", "--max-price", "0.03")


@pytest.mark.parametrize("how", ["profile", "stdin", "environment"])
def test_headers_that_say_the_key_are_not_shown(trade: Terminal, service: Scripted, how: str) -> None:
    key = "MARKED-key/1"
    del trade.env["TRADE_API_KEY"]
    service.says(200, {"ok": 1}, X_Echo=f"Bearer {key}", X_Quoted="k=MARKED-key%2F1", X_Kind="plain")
    brought, stdin = ((), "") if how != "stdin" else (("--api-key-stdin",), f"{key}\n")
    if how == "environment":
        trade.env["TRADE_API_KEY"] = key
    elif how == "profile":
        configured(trade, f'[profiles.default]\nbase_url = "{service.url}"\nkey = "file"\n')
        (trade.home / "keys").mkdir(mode=0o700)
        (trade.home / "keys" / "default").write_text(key)
        (trade.home / "keys" / "default").chmod(0o600)
    for form in ("json", "table"):
        run = trade("api", "/v1/x", "-i", "-o", form, *brought, stdin=stdin)
        assert (run.code, "plain" in run.err) == (0, True)
        assert "MARKED" not in run.out + run.err
    service.fails(400, "bad", "no", X_Echo=key)
    assert "MARKED" not in trade("api", "/v1/x", "-i", *brought, stdin=stdin).err


def test_of_an_answer_that_is_text_nothing_is_repeated(trade: Terminal, service: Scripted) -> None:
    service.answers = [(200, {"Content-Type": "text/key-of-the-test"}, b"the key is key-of-the-test")]
    run = trade("api", "/v1/x", "-o", "json")
    assert (run.code, run.problem["message"]) == (10, "the answer is no JSON but text/key, 26 bytes")
    assert "key-of-the-test" not in run.err


@each_of(
    ("status", "line", "hint"),
    [
        (400, "-f risk.stop_loss_pct=7", "the text 7; -F risk.stop_loss_pct=7 sends it as a number"),
        (422, "-f name=calm -f paused=true", "the text true; -F paused=true sends it as true"),
        (400, "-F risk.stop_loss_pct=7 -f name=calm", "correct the value"),
        (404, "-f risk.stop_loss_pct=7", "see what there is"),
    ],
)
def test_a_text_where_a_number_was_wanted(
    trade: Terminal, service: Scripted, status: int, line: str, hint: str
) -> None:
    service.fails(status, "invalid", "Input should be a valid number")
    problem = trade("api", "PATCH", "/v1/agents/agt_1", *line.split(), "--yes").problem
    assert hint in problem["hint"]
    assert (problem["code"], problem["message"]) == ("invalid", "Input should be a valid number")


def test_secrets_that_are_sent_are_not_repeated(trade: Terminal, service: Scripted) -> None:
    body = {"label": "l", "private_key": "MARKED", "in": [{"signature": "MARKED"}], "a": {"api-key": "MARKED"}}
    line = ("api", "POST", "/v1/wallets", "-d", json.dumps(body))
    for run in (trade(*line, "--yes"), trade(*line, answers="y\n"), trade(*line, "-o", "json", answers="y\n")):
        assert (run.code, run.err.count("(not shown)"), "MARKED" in run.err) == (0, 3, False)
    assert [json.loads(sent) for _, _, sent in service.seen] == [body] * 3
    assert trade(*line, "--dry-run").json["body"] == body, "that is what is asked for"
    public = {"token_address": "0x1", "key_name": "MARKED", "secretary": "MARKED"}
    assert trade("api", "POST", "/v1/x", "-d", json.dumps(public), "--yes").err.count("MARKED") == 2


# What is paid


def test_fields_that_no_answer_has_cost_nothing(buyer: Terminal, shop: MockServer) -> None:
    run = buyer(*PRICES, "--fields", "data.result")
    assert (run.code, run.problem["hint"]) == (2, "did you mean data.results?")
    assert shop.payments.submissions() == []
    assert buyer(*PRICES, "--fields", "success,data.results").json["success"] is True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_while_it_is_paid_ends_the_command_afterwards(
    buyer: Terminal, shop: MockServer, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    sign = Wallet.sign_digest

    def and_then(self: Wallet, digest: bytes) -> bytes:
        signature = sign(self, digest)
        signal.raise_signal(number)
        return signature

    monkeypatch.setattr(Wallet, "sign_digest", and_then)
    run = buyer(*PRICES)
    assert (run.code, run.json["success"]) == (code, True)
    assert run.notes[-1]["note"] == "interrupted, after it was bought"
    shop.payments.assert_charged(times=1)
