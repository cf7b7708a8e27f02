"""Marked secrets appear nowhere: not in results, notes, logs, errors or tracebacks."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tradesdk import Ledger, create_keystore
from tradesdk_cli.run import Run as CommandRun
from tradesdk_mock import MockServer

from .._rows import each_of
from ._services import Scripted
from ._terminal import Run, Terminal

API_KEY = "MARKED-api-key-0123456789"
WALLET_KEY = "0x" + "DEADBEEF" * 8
BOTH = ("--debug", "--curl")
MARKS = ("MARKED", "DEADBEEF", "deadbeef")


def clean(run: Run) -> bool:
    return not any(mark in run.out + run.err for mark in MARKS)


@pytest.mark.long
@each_of("look", [("-o", "table"), ("-vv", "-o", "json"), (*BOTH, "-vv", "-o", "table"), (*BOTH, "-o", "ndjson")])
@each_of("status", [200, 401, 403, 429, 500, 503])
def test_whatever_the_service_answers(trade: Terminal, service: Scripted, status: int, look: tuple[str, ...]) -> None:
    trade.env |= {"TRADE_API_KEY": API_KEY, "TRADE_WALLET_KEY": WALLET_KEY}
    service.fails(status, "code", f"your key is {API_KEY}", X_Echo=API_KEY, Set_Cookie=f"k={API_KEY}")
    for argv in (
        ("account", "show"),
        ("agents", "create", "--name", "n", "--wallet-id", "w", "--chain", "base", "--yes"),
        ("wallets", "connect", "--label", "l", "--chain", "base", "--yes"),
        ("wallets", "connect", "--label", "l", "--chain", "base", "--dry-run"),
        ("signals", "stream", "--chain", "base", "--count", "1"),
    ):
        run = trade(*argv, *(("-o", "ndjson") if "stream" in argv and "json" in look else look))
        assert clean(run)
        assert "--debug" not in look or "--dry-run" in argv or "/v1/" in run.err
        bodies = [json.loads(body) for _, path, body in service.seen if path == "/v1/wallets"]
        assert not any(body["signature"] in run.out + run.err for body in bodies)
    assert bodies
    assert service.keys
    assert set(service.keys) == {f"Bearer {API_KEY}"}


def test_a_key_that_cannot_be_sent(trade: Terminal, service: Scripted) -> None:
    for key in (f"{API_KEY} x", f"{API_KEY}\tx", f"{API_KEY}ä"):
        run = trade("account", "show", "-vv", env={"TRADE_API_KEY": key})
        assert run.code == 3
        assert clean(run)
        assert clean(trade("login", "-vv", "--api-key-stdin", stdin=key))


def test_a_wallet_key_that_is_none(trade: Terminal, service: Scripted) -> None:
    for key in (WALLET_KEY + "0", WALLET_KEY[:-1] + "g", "0x" + "DEADBEEF" + "f" * 56, "DEADBEEF\n"):
        line = ("wallets", "connect", "--label", "l", "--chain", "base", "--yes", "-vv")
        run = trade(*line, env={"TRADE_WALLET_KEY": key})
        assert clean(run), key
        assert run.code in (3, 8, 10), "a bad key, or one whose wallet the service did not take"


def test_a_key_on_the_command_line(trade: Terminal) -> None:
    for argv in (("--api-key", API_KEY, "account", "show"), ("account", "show", f"--api-key={API_KEY}")):
        run = trade(*argv, "-vv")
        assert run.code == 2
        assert clean(run)


def test_a_traceback(trade: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(CommandRun, "show", broken)
    service.says(200, {"id": "a", "email": "e", "plan": "pro", "created_at": 1, "api_key_last4": "abcd"})
    run = trade("account", "show", "-vv", env={"TRADE_API_KEY": API_KEY})
    assert "Traceback" in run.err
    assert clean(run)


# Market data


PASSWORD = "MARKED password of the keystore"
PAID = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10")
LOOKS = (("-o", "table", *BOTH), ("-o", "json", "-vv", *BOTH), ("-v", "-o", "ndjson"))


@pytest.fixture
def keystore(trade: Terminal, shop: MockServer, tmp_path: Path) -> dict[str, str]:
    """The marked key in a keystore, and what names it; the file's content is a secret as well."""
    password, path = tmp_path / "password", tmp_path / "wallet.json"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    create_keystore(path, PASSWORD, WALLET_KEY, work=2)
    trade.env["TRADE_MARKET_BASE_URL"] = shop.url
    return {"TRADE_KEYSTORE": str(path), "TRADE_KEYSTORE_PASSWORD_FILE": str(password)}


def signed_payments(trade: Terminal) -> list[str]:
    """What could be cashed: the headers that the ledger holds, and the signatures in them."""
    with Ledger(trade.home / "ledger.sqlite3") as ledger:
        headers = [payment.header for payment in ledger.history() if payment.header is not None]
    signatures = [json.loads(base64.b64decode(header))["payload"]["signature"] for header in headers]
    return [*headers, *signatures, *(signature[2:] for signature in signatures)]


@pytest.mark.parametrize(
    "fault",
    [
        {},
        pytest.param({"kind": "status", "status": 500}, marks=pytest.mark.long),
        {"kind": "reset", "executed": True},
        pytest.param({"kind": "verification", "reason": "invalid_payload"}, marks=pytest.mark.long),
        {"kind": "malformed_json"},
    ],
    ids=lambda fault: str(fault.get("kind")),
)
def test_whatever_becomes_of_a_payment(
    trade: Terminal, shop: MockServer, keystore: dict[str, str], fault: dict[str, Any]
) -> None:
    trade.env["TRADE_API_KEY"] = API_KEY
    variable = {"TRADE_WALLET_KEY": WALLET_KEY}
    if fault:
        shop.add_fault(paid="only", **fault)
    content = json.loads(Path(keystore["TRADE_KEYSTORE"]).read_text())["crypto"]
    runs = [
        trade(*PAID, "--purchase", " ".join(look), *look, env=source)
        for look, source in zip(LOOKS, (keystore, keystore, variable), strict=True)
    ]
    trade.env |= keystore
    names = [one["id"] for one in trade("pay", "history").lines]
    assert len(names) == 3
    runs += [
        trade("pay", *line, "-vv") for line in (("show", names[0]), ("resume", names[0]), ("reconcile",), ("history",))
    ]
    cashable = signed_payments(trade)
    assert fault in ({}, {"kind": "malformed_json"}, {"kind": "reset", "executed": True}) or cashable
    for run in runs:
        assert clean(run)
        assert not any(part in run.out + run.err for part in cashable)
        assert content["ciphertext"] not in run.out + run.err
        assert content["mac"] not in run.out + run.err


def test_wrong_passwords_and_damaged_keystores(trade: Terminal, shop: MockServer, keystore: dict[str, str]) -> None:
    trade.env |= keystore
    password = Path(keystore["TRADE_KEYSTORE_PASSWORD_FILE"])
    file = Path(keystore["TRADE_KEYSTORE"])
    whole = file.read_text()
    for said, content in ((f"{PASSWORD} wrong", whole), (PASSWORD, whole[:-40]), (PASSWORD, whole.replace("3", "4"))):
        password.write_text(said)
        file.write_text(content)
        for look in LOOKS:
            run = trade(*PAID, *look)
            assert run.code == 3
            assert clean(run)
            assert not whole or json.loads(whole)["crypto"]["ciphertext"] not in run.err
    assert shop.payments.submissions() == []


def test_keys_that_are_imported(trade: Terminal, keystore: dict[str, str], tmp_path: Path) -> None:
    trade.env["TRADE_KEYSTORE_PASSWORD_FILE"] = keystore["TRADE_KEYSTORE_PASSWORD_FILE"]
    for key in (WALLET_KEY + "0", WALLET_KEY[:-1] + "g", "DEADBEEF"):
        assert clean(trade("pay", "key", "import", "-vv", stdin=key))
    for argv in (("--key", WALLET_KEY), (WALLET_KEY,), (f"--wallet={WALLET_KEY}",)):
        run = trade("pay", "key", "import", *argv, "-vv", stdin="")
        assert run.code in (2, 3)
        assert clean(run)
    assert "trade pay key import asks for one" in trade("pay", "key", "import", "--key", "x").problem["hint"]


def test_a_traceback_while_something_is_signed(
    trade: Terminal, shop: MockServer, keystore: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    trade.env |= keystore
    monkeypatch.setattr("tradesdk_cli.pay.buy.show", broken)
    run = trade(*PAID, "-vv")
    assert "Traceback" in run.err
    assert clean(run)
    assert run.code == 1
    shop.payments.assert_charged(times=1)
    assert "payment pay_" in run.err, "what was paid is said whatever else fails"


@each_of(
    "line",
    [
        *(("pay", "show"), ("pay", "trust"), ("pay", "trust", "--dry-run"), ("pay", "resume")),
        *(("pay", "resume", "--dry-run"), ("pay", "reconcile", "--mark", "paid"), ("pay", "history", "extra")),
        *(("pay", "budget", "set", "--per-day"), ("market", "prices", "ETH", "--max-price")),
        *(("market", "prices"), ("market", "prices", "ETH", "--dry-run"), ("pay", "quote", "prices")),
    ],
    ids=" ".join,
)
def test_a_wallet_key_where_something_else_belongs(trade: Terminal, shop: MockServer, line: tuple[str, ...]) -> None:
    """As it is or mistyped: an id, an address and an option have other forms, and the error need not repeat it."""
    trade.env["TRADE_MARKET_BASE_URL"] = shop.url
    for key, *look in ((WALLET_KEY, "-vv"), (WALLET_KEY[2:], "-o", "json"), (WALLET_KEY[:-1] + "g",)):
        run = trade(*line, key, *look)
        assert run.code != 0
        assert clean(run), run.err
