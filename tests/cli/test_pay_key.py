"""`trade pay key` and the wallet: keystores, hidden passwords, and a key that is opened only to sign."""

from __future__ import annotations

import getpass
import json
import os
import stat
from pathlib import Path

import pytest

from tradesdk import LocalSigner, create_keystore
from tradesdk_mock import MockServer

from .._rows import each_of
from ._terminal import Terminal
from .conftest import BUYER_KEY

PASSWORD = "correct horse"
BUYER = LocalSigner.from_key(BUYER_KEY).address
PRICES = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10")


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a second on purpose takes none here."""
    defaults = create_keystore.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "work", 2)


class Typist:
    """Types what it was told to when something is asked for in secret, and remembers the prompts."""

    def __init__(self) -> None:
        self.types: list[str] = []
        self.prompts: list[str] = []

    def __call__(self, prompt: str = "", stream: object = None) -> str:
        self.prompts.append(prompt)
        if not self.types:
            raise EOFError
        return self.types.pop(0)


@pytest.fixture
def typist(monkeypatch: pytest.MonkeyPatch) -> Typist:
    made = Typist()
    monkeypatch.setattr(getpass, "getpass", made)
    return made


@pytest.fixture
def keystore(tmp_path: Path) -> Path:
    path = tmp_path / "wallet.json"
    create_keystore(path, PASSWORD, BUYER_KEY, work=2)
    return path


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(PASSWORD + "\n")
    path.chmod(0o600)
    return path


def test_new(trade: Terminal, typist: Typist) -> None:
    typist.types = [PASSWORD, PASSWORD]
    run = trade("pay", "key", "new", "-o", "json", answers="")
    assert run.code == 0, run.err
    path = trade.home / "keystore.json"
    assert run.json == {"address": run.json["address"], "kept_in": str(path)}
    assert PASSWORD not in run.out + run.err
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert LocalSigner.from_keystore(path, PASSWORD).address == run.json["address"]
    assert trade("pay", "key", "address").json == run.json
    before = path.read_bytes()
    again = trade("pay", "key", "new", answers="")
    assert again.code == 3
    assert "exists already" in " ".join(again.err.split())
    assert typist.prompts[2:] == [], "nobody types a password in vain"
    assert path.read_bytes() == before


def test_two_passwords_that_differ_and_none_at_all(trade: Terminal, typist: Typist) -> None:
    for types, code in ((["one", "two"], 1), ([""], 3), ([], 1)):
        typist.types = types
        run = trade("pay", "key", "new", answers="")
        assert (run.code, run.out) == (code, "")
    nobody = trade("pay", "key", "new")
    assert nobody.code == 3
    assert "TRADE_KEYSTORE_PASSWORD_FILE" in nobody.problem["hint"]
    assert list(trade.home.glob("*.json")) == []


def test_import(trade: Terminal, typist: Typist, password_file: Path) -> None:
    typist.types = [BUYER_KEY, PASSWORD, PASSWORD]
    run = trade("pay", "key", "import", "--wallet", str(trade.home / "typed.json"), "-o", "json", answers="")
    assert run.json["address"] == BUYER
    assert [prompt.split(":")[0] for prompt in typist.prompts] == [
        "the private key",
        f"a password for {trade.home / 'typed.json'}",
        "repeat the password",
    ]
    trade.env["TRADE_KEYSTORE_PASSWORD_FILE"] = str(password_file)
    piped = trade("pay", "key", "import", stdin=BUYER_KEY[2:] + "\n")
    assert piped.json["address"] == BUYER
    assert LocalSigner.from_keystore(trade.home / "keystore.json", PASSWORD).address == BUYER
    for each in (run, piped):
        assert BUYER_KEY[2:] not in each.out + each.err


@each_of("key", ["", "0x12", "hello", BUYER_KEY + "00", "0x" + "00" * 32, "0x" + "ff" * 32])
def test_what_is_no_key(trade: Terminal, password_file: Path, key: str) -> None:
    run = trade("pay", "key", "import", stdin=key, env={"TRADE_KEYSTORE_PASSWORD_FILE": str(password_file)})
    assert (run.code, run.problem["code"]) == (3, "configuration")
    assert not key or key[2:] not in run.err
    assert not (trade.home / "keystore.json").exists()


def test_address_takes_no_password(trade: Terminal, keystore: Path) -> None:
    run = trade("pay", "key", "address", "--wallet", str(keystore))
    assert run.json == {"address": BUYER, "kept_in": str(keystore)}
    assert trade("pay", "key", "address", env={"TRADE_KEYSTORE": str(keystore)}).json["address"] == BUYER
    assert trade("pay", "key", "address", env={"TRADE_WALLET_KEY": BUYER_KEY}).json["kept_in"] == "TRADE_WALLET_KEY"
    none = trade("pay", "key", "address")
    assert (none.code, none.problem["hint"]) == (3, "make one: trade pay key new")
    missing = trade("pay", "key", "address", "--wallet", "nowhere.json")
    assert (missing.code, "no such keystore: nowhere.json" in missing.problem["message"]) == (3, True)


def test_the_mock_has_its_own(trade: Terminal) -> None:
    for verb in ("new", "import"):
        run = trade("--mock", "pay", "key", verb)
        assert (run.code, "makes its own wallet" in run.problem["message"]) == (2, True)


# Paying with a keystore


def test_the_password_is_asked_for_when_something_is_signed_and_not_before(
    buyer: Terminal, shop: MockServer, keystore: Path, typist: Typist
) -> None:
    line = (*PRICES, "--wallet", str(keystore))
    dry = buyer(*line, "--dry-run", "-o", "json", answers="")
    assert dry.json["authorization"]["from"] == BUYER
    for other in (("pay", "quote", "prices", "ETH"), ("market", "tokens"), ("pay", "history")):
        assert buyer(*other, answers="", env={"TRADE_KEYSTORE": str(keystore), "TRADE_WALLET_KEY": ""}).code == 0
    assert typist.prompts == []
    typist.types = [PASSWORD]
    run = buyer(*line, answers="")
    assert run.code == 0, run.err
    assert typist.prompts == [f"password of {keystore}: "]
    (taken,) = shop.payments.assert_charged(times=1, amount=60_000)
    assert taken.payer == BUYER
    assert PASSWORD not in run.out + run.err


def test_a_password_file(buyer: Terminal, shop: MockServer, keystore: Path, password_file: Path) -> None:
    del buyer.env["TRADE_WALLET_KEY"]
    buyer.env |= {"TRADE_KEYSTORE": str(keystore), "TRADE_KEYSTORE_PASSWORD_FILE": str(password_file)}
    assert buyer(*PRICES).code == 0
    password_file.chmod(0o640)
    run = buyer(*PRICES)
    assert (run.code, run.problem["hint"]) == (
        3,
        f"chmod 600 {password_file}; they may have read it: then choose another password",
    )
    password_file.chmod(0o600)
    password_file.write_bytes(b"\xff\n")
    assert buyer(*PRICES).code == 3
    password_file.unlink()
    assert "TRADE_KEYSTORE_PASSWORD_FILE" in buyer(*PRICES).problem["hint"]
    shop.payments.assert_charged(times=1)


@pytest.mark.parametrize("types", [["wrong"], []])
def test_what_does_not_open_it_pays_nothing_and_reserves_nothing(
    buyer: Terminal, shop: MockServer, keystore: Path, typist: Typist, types: list[str]
) -> None:
    typist.types = list(types)
    run = buyer(*PRICES, "--wallet", str(keystore), answers="", env={"NO_COLOR": "1"})
    assert run.code == (3 if types else 1)
    assert ("the password is wrong" if types else "nothing was entered") in run.err
    assert "wrong\n" not in run.err
    assert shop.payments.submissions() == []
    assert buyer("pay", "budget").json["held_total_usd"] == "0.00"
    nobody = buyer(*PRICES, "--wallet", str(keystore))
    assert (nobody.code, nobody.problem["code"]) == (3, "configuration")
    assert "TRADE_KEYSTORE_PASSWORD_FILE" in nobody.problem["hint"]


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda path: path.chmod(0o644), "chmod 600"),
        (lambda path: path.chmod(0o644), "others may have read it"),
        (lambda path: path.write_text("{"), "put your copy of the file back"),
        (lambda path: path.write_text(path.read_text().replace('"mac"', '"mca"')), "put your copy of the file back"),
        (lambda path: path.write_text("{}"), "only version 3"),
        (lambda path: path.unlink(), "no such keystore"),
    ],
)
def test_a_keystore_that_cannot_be_used(buyer: Terminal, keystore: Path, spoil: object, named: str) -> None:
    assert callable(spoil)
    spoil(keystore)
    run = buyer(*PRICES, "--wallet", str(keystore))
    assert (run.code, run.problem["code"]) == (3, "configuration")
    assert named in run.problem["message"] + run.problem["hint"]


def test_a_keystore_without_an_address_is_opened_to_know_it(
    buyer: Terminal, shop: MockServer, keystore: Path, password_file: Path
) -> None:
    document = json.loads(keystore.read_text())
    del document["address"]
    keystore.write_text(json.dumps(document))
    buyer.env["TRADE_KEYSTORE_PASSWORD_FILE"] = str(password_file)
    assert buyer(*PRICES, "--wallet", str(keystore)).code == 0
    assert shop.payments.settlements()[0].payer == BUYER


def test_the_usual_keystore_is_found(buyer: Terminal, shop: MockServer, password_file: Path) -> None:
    create_keystore(buyer.home / "keystore.json", PASSWORD, BUYER_KEY, work=2)
    del buyer.env["TRADE_WALLET_KEY"]
    buyer.env["TRADE_KEYSTORE_PASSWORD_FILE"] = str(password_file)
    assert buyer(*PRICES).code == 0
    assert shop.payments.settlements()[0].payer == BUYER


def test_another_purchase_secret_is_shown_beside_the_one_before(buyer: Terminal) -> None:
    assert buyer(*PRICES, "--purchase", "today").code == 0
    secret = "cd" * 32
    buyer.env["TRADE_PURCHASE_SECRET"] = secret
    line = ("pay", "key", "accept-secret")
    shown = buyer(*line, "--dry-run").json
    assert shown["body"]["payer"] == BUYER
    change = shown["changes"]["secret_id"]
    assert change["from"] != change["to"] == shown["body"]["secret_id"]
    assert buyer(*line, "--dry-run").json == shown  # nothing has changed
    for_people = buyer(*line, "--dry-run", "-o", "table")
    assert f"{change['from']} → {change['to']}" in for_people.err
    assert buyer(*line).problem["hint"] == "add --yes, or --dry-run"
    done = buyer(*line, "--yes")
    assert (done.json, done.notes[0]["changes"]) == (shown["body"], {"secret_id": change})
    assert secret not in done.out + done.err + for_people.out + for_people.err
    assert buyer(*line, "--dry-run").json["changes"] == {}
    del buyer.env["TRADE_WALLET_KEY"]
    assert buyer(*line, "--dry-run").problem["code"] == "no_signer"
