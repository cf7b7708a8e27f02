"""Where a signer gets its key: a variable, a function. Whatever goes wrong, the key is in no error and in no frame."""

import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.traceback import Traceback

from tradesdk import (
    AsyncMarketClient,
    AsyncTradeClient,
    ChainWitness,
    ConfigError,
    Ledger,
    LocalSigner,
    MarketClient,
    Signer,
    TradeClient,
    create_keystore,
)
from tradesdk._sync.signing import ask_signer
from tradesdk.payments.signing.purchase_secret import purchase_secret
from tradesdk.payments.signing.signer import checked_signer

from .._rows import each_of
from .._secrets import WALLET_KEY, Seen
from .test_key_files import TAKEN

ADDRESS = LocalSigner.from_key(WALLET_KEY).address
SHORT, LONG, WRONG, ZERO = WALLET_KEY[:-1], WALLET_KEY + "00", WALLET_KEY[:-1] + "x", "0x" + "0" * 64


@pytest.fixture
def seen() -> Seen:
    return Seen("a password that no file holds")


def test_from_the_usual_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_WALLET_KEY", f" {WALLET_KEY}\n")
    assert LocalSigner.from_env().address == ADDRESS
    assert LocalSigner.from_env().sign_digest(bytes(32)) == LocalSigner.from_key(WALLET_KEY).sign_digest(bytes(32))


@each_of("added", TAKEN.values(), ids=TAKEN)
def test_from_a_variable_without_what_a_file_added(monkeypatch: pytest.MonkeyPatch, added: str) -> None:
    text = added.replace("{}", WALLET_KEY)
    monkeypatch.setenv("TRADE_WALLET_KEY", text)
    assert LocalSigner.from_env().address == LocalSigner.from_key(text).address == ADDRESS
    monkeypatch.setenv("TRADE_PURCHASE_SECRET", text)
    taken = ask_signer(purchase_secret(None)).id
    monkeypatch.setenv("TRADE_PURCHASE_SECRET", WALLET_KEY)
    assert taken == ask_signer(purchase_secret(None)).id


def test_from_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRADE_WALLET_KEY", raising=False)
    monkeypatch.setenv("BOT_KEY", WALLET_KEY.removeprefix("0x").upper())
    assert LocalSigner.from_env("BOT_KEY").address == ADDRESS
    assert LocalSigner.from_env(name="BOT_KEY").address == ADDRESS


PASSWORD = "a password that nobody may see"


@pytest.fixture
def keystore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A keystore that the environment names, with its password's file."""
    file, password = tmp_path / "keystore.json", tmp_path / "password"
    password.write_text(f"{PASSWORD}\r\nmore\n")
    password.chmod(0o600)
    monkeypatch.setenv("TRADE_KEYSTORE_PASSWORD_FILE", str(password))
    create_keystore(file, key=WALLET_KEY, work=2)
    monkeypatch.delenv("TRADE_WALLET_KEY", raising=False)
    monkeypatch.setenv("TRADE_KEYSTORE", str(file))
    return file


def test_from_the_keystore_that_the_environment_names(keystore: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LocalSigner.from_env().address == LocalSigner.from_keystore(keystore).address == ADDRESS
    assert LocalSigner.from_keystore(keystore, PASSWORD).address == ADDRESS, "the first line, without its end"
    monkeypatch.setenv("TRADE_WALLET_KEY", "0x" + "11" * 32)
    assert LocalSigner.from_env().address != ADDRESS, "a key goes before a keystore, as in the terminal"
    monkeypatch.delenv("TRADE_WALLET_KEY")
    with pytest.raises(ConfigError, match=r"^BOT_KEY is not set"):
        LocalSigner.from_env("BOT_KEY")


def test_a_market_client_pays_from_the_keystore_of_the_environment(keystore: Path) -> None:
    with MarketClient(base_url="https://market.example", ledger=Ledger.memory()) as client:
        known, given = client.payments.purchase_secret_ids()  # it opens the wallet
    with MarketClient(
        base_url="https://market.example", ledger=Ledger.memory(), signer=LocalSigner.from_key(WALLET_KEY)
    ) as client:
        assert client.payments.purchase_secret_ids() == (known, given)


@each_of(
    ("spoil", "message", "hint"),
    [
        (lambda file: file.unlink(), "cannot read {}: No such file or directory", "it is named by TRADE_KEYSTORE_PASS"),
        (lambda file: file.chmod(0o640), "{} can be read by others (mode 0640)", "chmod 600 {}; they may have read"),
        (lambda file: file.write_bytes(b"\xff" + PASSWORD.encode()), "{} is not text in UTF-8", "it is named by"),
        (lambda file: file.write_text(f"not {PASSWORD}"), "the keystore", "call again with the password of that file"),
    ],
)
def test_a_password_file_that_cannot_be_used(
    keystore: Path, seen: Seen, spoil: Callable[[Path], object], message: str, hint: str
) -> None:
    seen.secrets.append(PASSWORD)
    file = keystore.with_name("password")
    file.write_text(PASSWORD)
    file.chmod(0o600)
    spoil(file)
    with pytest.raises(ConfigError) as caught:
        LocalSigner.from_env()
    seen.error(caught.value)
    assert str(caught.value).startswith(message.format(file))
    assert caught.value.hint.startswith(hint.format(file))
    assert seen.found() == []


def test_a_keystore_without_a_password(keystore: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRADE_KEYSTORE_PASSWORD_FILE")
    with pytest.raises(ConfigError, match=r"^the keystore .* needs its password") as caught:
        LocalSigner.from_env()
    assert caught.value.hint.startswith("set TRADE_KEYSTORE_PASSWORD_FILE to a file, readable by you only")


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_variable_that_is_not_set(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("BOT_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("BOT_KEY", value)
    with pytest.raises(ConfigError, match=r"^BOT_KEY is not set"):
        LocalSigner.from_env("BOT_KEY")


@pytest.mark.parametrize("value", [SHORT, LONG, WRONG, ZERO, "0x", f"'{WALLET_KEY}", f"{WALLET_KEY},"])
def test_a_variable_that_holds_no_key(monkeypatch: pytest.MonkeyPatch, seen: Seen, value: str) -> None:
    monkeypatch.setenv("BOT_KEY", value)
    with pytest.raises(ConfigError, match=r"^BOT_KEY: the private key") as caught:
        LocalSigner.from_env("BOT_KEY")
    seen.error(caught.value)
    assert caught.value.__context__ is None
    assert seen.found() == []


@each_of(
    "name", [WALLET_KEY, WALLET_KEY[2:], "f" + WALLET_KEY[3:], "a" + WALLET_KEY[2:], "", "BOT KEY", "A=B", "A\0", None]
)
def test_a_key_in_place_of_a_name_is_not_shown(seen: Seen, name: Any) -> None:
    with pytest.raises(ConfigError, match="must be the name of an environment variable") as caught:
        LocalSigner.from_env(name)
    seen.error(caught.value)
    assert seen.found() == []
    assert WALLET_KEY[10:40] not in str(caught.value)


class Vault:
    """Gives keys, one after the other, and counts how often it was asked; errors are raised."""

    def __init__(self, *given: Any) -> None:
        self.given = list(given)
        self.asked = 0

    def __call__(self) -> Any:
        self.asked += 1
        given = self.given.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given


@each_of("key", [WALLET_KEY, WALLET_KEY[2:], bytes.fromhex(WALLET_KEY[2:])])
def test_a_function_is_asked_once_and_when_it_is_needed(key: str | bytes) -> None:
    vault = Vault(key)
    signer = LocalSigner.from_callable(vault)
    assert repr(signer) == "LocalSigner(key not loaded yet)"
    assert checked_signer(signer) is signer
    assert vault.asked == 0
    assert signer.sign_digest(bytes(32)) == LocalSigner.from_key(WALLET_KEY).sign_digest(bytes(32))
    assert signer.address == ADDRESS
    assert signer.sign_digest(b"1" * 32)
    assert vault.asked == 1
    assert repr(signer) == f"LocalSigner({ADDRESS})"
    assert isinstance(signer, Signer)


def test_a_digest_of_the_wrong_length_does_not_ask() -> None:
    vault = Vault(WALLET_KEY)
    with pytest.raises(ValueError, match="32 bytes, not 3"):
        LocalSigner.from_callable(vault).sign_digest(b"abc")
    assert vault.asked == 0


def test_threads_ask_once() -> None:
    started = threading.Barrier(8)
    vault = Vault(WALLET_KEY)
    signer = LocalSigner.from_callable(vault)
    addresses: list[str] = []

    def use() -> None:
        started.wait()
        addresses.append(signer.address)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert addresses == [ADDRESS] * 8
    assert vault.asked == 1


def test_what_the_function_raises_goes_through_and_it_is_asked_again() -> None:
    vault = Vault(ConnectionError("the vault is sealed"), WALLET_KEY)
    signer = LocalSigner.from_callable(vault)
    with pytest.raises(ConnectionError, match="the vault is sealed"):
        signer.sign_digest(bytes(32))
    assert signer.address == ADDRESS
    assert vault.asked == 2


@each_of("given", [SHORT, LONG, WRONG, ZERO, "", None, int(WALLET_KEY, 16), [WALLET_KEY]])
@each_of("use", [lambda signer: signer.address, lambda signer: signer.sign_digest(bytes(32))], ids=["address", "sign"])
def test_a_function_that_gives_no_key(seen: Seen, given: Any, use: Callable[[LocalSigner], Any]) -> None:
    signer = LocalSigner.from_callable(Vault(given))
    with pytest.raises(ConfigError, match=r"^the function for the key returned something else") as caught:
        use(signer)
    seen.error(caught.value)
    assert caught.value.__context__ is None
    assert seen.found() == []


@each_of("key", [WALLET_KEY, bytes.fromhex(WALLET_KEY[2:]), None])
def test_a_key_in_place_of_a_function_is_not_shown(seen: Seen, key: Any) -> None:
    with pytest.raises(ConfigError, match="must be a function") as caught:
        LocalSigner.from_callable(key)
    seen.error(caught.value)
    assert seen.found() == []


def test_no_signer_shows_its_key(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    monkeypatch.setenv("TRADE_WALLET_KEY", WALLET_KEY)
    fresh, used = LocalSigner.from_callable(Vault(WALLET_KEY)), LocalSigner.from_callable(Vault(WALLET_KEY))
    assert used.address == ADDRESS
    for signer in (LocalSigner.from_key(WALLET_KEY), LocalSigner.from_env(), used):
        seen(signer)
        seen.raises(signer.sign_digest, b"short")
        seen.text += [repr(getattr(signer, name)) for name in dir(signer) if name != "__doc__"]
    seen(fresh)
    assert seen.found() == []
    assert seen.errors == 3


MORE: dict[str, Any] = {"base_url": "nowhere"}
PASSWORD = "a-marked-passphrase"


@pytest.mark.long
@each_of(
    ("call", "given"),
    [
        (TradeClient, {"api_key": WALLET_KEY, **MORE}),
        (AsyncTradeClient, {"api_key": f"{WALLET_KEY}\n\n"}),
        (MarketClient, {"send_api_key": True, "api_key": WALLET_KEY, **MORE}),
        (MarketClient, {"api_key": WALLET_KEY}),
        (AsyncMarketClient, {"signer": WALLET_KEY}),
        (LocalSigner.from_key, {"key": f"{WALLET_KEY}00"}),
        (LocalSigner.from_keystore, {"path": "/nowhere", "password": PASSWORD}),
        (create_keystore, {"path": "/dev/null/wallet.json", "password": PASSWORD, "key": WALLET_KEY, "work": 2}),
        (create_keystore, {"path": "nowhere", "password": lambda: 1 / 0, "key": WALLET_KEY}),
        (ChainWitness, {"rpc_url": f"https://node.example/{WALLET_KEY}#"}),
    ],
)
def test_a_rich_traceback_shows_no_secret(call: Any, given: dict[str, Any]) -> None:
    """With the locals of all frames but this one; it still says where it failed."""
    first = [given["rpc_url"]] if "rpc_url" in given else []
    with pytest.raises(Exception) as caught:  # noqa: PT011  # whichever it is
        call(*first, **{name: value for name, value in given.items() if name != "rpc_url"})
    assert caught.tb.tb_next is not None
    shown = Traceback.from_exception(
        caught.type, caught.value, caught.tb.tb_next, show_locals=True, locals_max_string=9_999
    )
    file = StringIO()
    Console(width=200, file=file).print(shown)
    text = file.getvalue()
    assert "tradesdk" in text
    assert not any(mark in text for mark in (WALLET_KEY[2:], PASSWORD))
