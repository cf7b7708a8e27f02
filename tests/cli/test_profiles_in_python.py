"""What `trade login` saved, in Python: `profile=` and TRADE_PROFILE."""

import logging
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tradesdk import AsyncMarketClient, AsyncTradeClient, ConfigError, Ledger, MarketClient, TradeClient

from .._rows import each_of
from . import _keyring
from ._keyring import Ring
from ._services import Scripted, agent
from ._terminal import Terminal

KEY = "sk_live_of-bob-1234"
ACCOUNT = {"id": "acc_1", "email": "me@example.test", "plan": "pro", "created_at": 1, "api_key_last4": "1234"}


@pytest.fixture
def saved(trade: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """`trade` with two logins and a mock; and this process with the same `TRADE_HOME` and nothing else of ours."""
    trade.env = {"TRADE_HOME": str(trade.home)}
    service.says(200, ACCOUNT)
    for name, key in (("alice", "sk_live_of-alice-9"), ("bob", KEY)):
        run = trade("login", "--profile", name, "--base-url", service.url, "--api-key-stdin", stdin=key)
        assert run.code == 0, run.err
    assert trade("login", "--profile", "paper", "--world", "rehearsal").code == 0
    service.keys.clear()
    for name in [name for name in os.environ if name.startswith("TRADE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRADE_HOME", str(trade.home))
    service.says(200, agent())
    return trade


def sent(service: Scripted, **arguments: Any) -> str:
    """The key that a call sends."""
    service.keys.clear()
    with TradeClient(**arguments) as client:
        client.request("GET", "/v1/agents/agt_1")
    return service.keys[-1].removeprefix("Bearer ")


def refused(make: Callable[..., Any] = TradeClient, **arguments: Any) -> ConfigError:
    """The error, which has one line, one hint, and no secret anywhere."""
    with pytest.raises(ConfigError) as caught:
        make(**arguments)
    error = caught.value
    shown = [str(error), repr(error), error.hint, "".join(traceback.format_exception(error))]
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if "tradesdk" in frame.f_code.co_filename:
            shown.append(repr(frame.f_locals))
    assert not any(KEY in text or KEY[8:] in text for text in shown)
    assert str(error).isprintable()
    assert error.hint.isprintable()
    assert error.hint
    return error


def test_a_profile_has_address_and_key(saved: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    with TradeClient(profile="bob") as client:
        assert client.base_url == service.url
        assert KEY not in repr(client) + repr(vars(client))
    assert sent(service, profile="bob") == KEY
    assert sent(service, profile="alice") == "sk_live_of-alice-9"
    monkeypatch.setenv("TRADE_PROFILE", "bob")
    assert sent(service) == KEY
    assert sent(service, profile="alice") == "sk_live_of-alice-9", "the argument counts more"


async def test_the_async_client_reads_the_same(saved: Terminal, service: Scripted) -> None:
    async with AsyncTradeClient(profile="bob") as client:
        await client.request("GET", "/v1/agents/agt_1")
    assert service.keys == [f"Bearer {KEY}"]


def test_an_argument_goes_before_the_environment_and_that_before_the_profile(
    saved: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRADE_API_KEY", "sk_of-the-environment")
    assert sent(service, profile="bob", api_key="sk_given") == "sk_given"
    assert caplog.records == []
    assert sent(service, profile="bob") == "sk_of-the-environment"
    (record,) = caplog.records
    assert (record.levelno, getattr(record, "event", ""), record.getMessage()) == (
        logging.WARNING,
        "profile_overridden",
        "TRADE_API_KEY is used instead of what profile bob says",
    )
    caplog.clear()
    monkeypatch.setenv("TRADE_PROFILE", "bob")
    assert sent(service) == "sk_of-the-environment"
    assert caplog.records == [], "only what an argument named is missed"


def test_a_profile_of_the_environment_is_read_only_when_something_is_missing(
    saved: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRADE_PROFILE", "nobody")
    given: Any = {"api_key": "k", "base_url": service.url}
    assert sent(service, **given) == "k"
    assert "there is no profile nobody" in str(refused(api_key="k"))
    assert "there is no profile someone" in str(refused(profile="someone", **given)), "an argument is never ignored"


@each_of("make", [TradeClient, AsyncTradeClient])
def test_without_a_key_the_error_names_the_profiles_that_exist(
    saved: Terminal, service: Scripted, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refused(make, base_url=service.url)
    assert str(error) == "no API key: set TRADE_API_KEY or pass api_key=; saved profiles: alice, bob"
    assert (error.code, error.hint) == ("invalid_api_key", 'pass profile="alice", or set TRADE_PROFILE to it')
    error = refused(make, api_key="k")
    assert (error.code, str(error)[-28:]) == ("invalid_base_url", "; saved profiles: alice, bob")
    for home in (str(saved.home / "nothing"), "https://me:secret@nowhere.invalid"):
        with monkeypatch.context() as patch:
            patch.setenv("TRADE_HOME", home)
            assert str(refused(make, base_url=service.url)) == "no API key: set TRADE_API_KEY or pass api_key="


def test_the_key_of_a_profile_goes_to_its_own_addresses_only(
    saved: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = service.url.rpartition(":")[2]
    same = f"HTTP://127.0.0.1.:0{port}/v1/"
    assert sent(service, profile="bob", base_url=same) == KEY
    elsewhere = f"http://localhost:{port}"
    ways: Any = (({"base_url": elsewhere}, ""), ({}, elsewhere))
    for arguments, variable in ways:
        monkeypatch.setenv("TRADE_BASE_URL", variable)
        error = refused(profile="bob", **arguments)
        assert str(error).startswith(f"the key of profile bob is not sent to localhost:{port}, which ")
        assert ("TRADE_BASE_URL" if variable else "base_url=") in error.hint
    assert service.keys == [f"Bearer {KEY}"]
    assert sent(service, profile="bob", api_key="sk_for-there") == "sk_for-there"


def test_market_data_is_where_the_profile_says(
    saved: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def url(**arguments: Any) -> str:
        with MarketClient(profile="bob", ledger=Ledger.memory(), **arguments) as client:
            return client.base_url

    assert url() == service.url, "where everything else is"
    assert saved("config", "set", "market_url", "https://market.example", "--profile", "bob", "--yes").code == 0
    assert url() == "https://market.example"
    assert TradeClient(profile="bob").base_url == service.url
    monkeypatch.setenv("TRADE_BASE_URL", "https://base.example")
    assert url() == "https://base.example"
    monkeypatch.setenv("TRADE_MARKET_BASE_URL", "https://other.example")
    assert url() == "https://other.example"
    assert url(base_url="https://given.example") == "https://given.example"
    error = refused(MarketClient, profile="bob", send_api_key=True, ledger=Ledger.memory())
    assert "not sent to other.example, which TRADE_MARKET_BASE_URL names" in str(error)
    assert error.hint.startswith("unset TRADE_MARKET_BASE_URL; or pass")
    (saved.home / "keys" / "bob").unlink()
    assert url() == "https://other.example", "market data needs no key"


async def test_market_data_gets_the_key_when_it_is_asked_for(saved: Terminal, service: Scripted) -> None:
    service.says(200, {"success": True, "data": {"tokens": [], "total": 0}, "error": None})
    with MarketClient(profile="bob", send_api_key=True, ledger=Ledger.memory()) as client:
        client.supported_tokens()
    async with AsyncMarketClient(profile="bob", ledger=Ledger.memory()) as other:
        await other.supported_tokens()
    assert service.keys == [f"Bearer {KEY}", ""]


def test_a_key_in_the_keyring(saved: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring()
    _keyring.install(monkeypatch, ring)
    service.says(200, ACCOUNT)
    login = ("login", "--profile", "bob", "--base-url", service.url, "--api-key-stdin", "--keyring", "--yes")
    assert saved(*login, stdin=KEY).code == 0
    assert sent(service, profile="bob") == KEY
    ring.broken = f"locked {chr(27)}[2J"
    assert str(refused(profile="bob")) == "the keyring failed: locked \\x1b[2J"
    ring.broken = None
    ring.kept.clear()
    error = refused(profile="bob")
    assert f"saves its key in the keyring (trade {saved.home}), and there is none" in str(error)
    _keyring.remove(monkeypatch)
    error = refused(profile="bob")
    assert str(error) == "the keyring is not installed"
    assert error.hint.startswith('pip install "keyring')


def put(file: Path, content: bytes = KEY.encode(), mode: int = 0o600) -> None:
    file.write_bytes(content)
    file.chmod(mode)


@each_of(
    ("spoil", "said", "hint"),
    [
        (lambda home: put(home / "keys" / "bob", mode=0o640), "(mode 0640)", "chmod 600 "),
        (
            lambda home: put(home / "keys" / "bob", b"a " + KEY.encode()),
            "profile bob: the API key cont",
            "save it agai",
        ),
        (lambda home: put(home / "keys" / "bob", b"\xff" + KEY.encode()), "bob is not text in UTF-8", "save it as UTF"),
        (lambda home: (home / "keys" / "bob").unlink(), "and there is none", "save it again: trade login --profile b"),
        (lambda home: put(home / "config.toml", f"x = 1\n{KEY}\n".encode()), "line 2", "correct that line"),
        (lambda home: (home / "config.toml").chmod(0o602), "(mode 0602)", "chmod 600 "),
        (
            lambda home: put(home / "config.toml", b"[profiles.bob]\nbase_url = 5\n"),
            "is not an address",
            "correct it: ",
        ),
        (
            lambda home: put(home / "config.toml", b"[profiles.bob]\nkey = 'file'\n"),
            "has no base URL",
            "set it: trade config",
        ),
        (
            lambda home: put(home / "config.toml", b"[profiles.bob]\nbase_url = 'https://a.example'\n"),
            "has no saved API key",
            "save one: trade login",
        ),
        (lambda home: put(home / "config.toml", b"profiles = 1"), "not a table of tables", "a profile begins with"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_one_hint(
    saved: Terminal, service: Scripted, spoil: Callable[[Path], object], said: str, hint: str
) -> None:
    put(saved.home / "keys" / "bob")
    put(saved.home / "config.toml", f'[profiles.bob]\nbase_url = "{service.url}"\nkey = "file"\n'.encode())
    assert sent(service, profile="bob") == KEY
    service.keys.clear()
    spoil(saved.home)
    error = refused(profile="bob")
    assert said in str(error)
    assert error.hint.startswith(hint)
    assert service.keys == []


@each_of(
    ("name", "said", "hint"),
    [
        ("bpb", "there is no profile bpb; saved: alice, bob, paper", "did you mean bob?"),
        ("work", "there is no profile work; saved: alice, bob, paper", "name one of them, or save it: trade login"),
        ("paper", "profile paper is a mock world, which only trade itself opens", "name the profile of a service"),
        ("../bob", "a profile's name is letters, digits, - and _ (at most 40)", "save one"),
        ("", "a profile's name is letters, digits, - and _ (at most 40)", "save one"),
        (KEY, "no profile has this name, which looks like an API key", "save the key"),
        (b"bob", "no profile has this name", "save the key"),
    ],
)
def test_a_profile_that_no_client_can_use(saved: Terminal, name: Any, said: str, hint: str) -> None:
    error = refused(profile=name)
    assert error.code == "invalid_profile"
    assert str(error).startswith(said)
    assert error.hint.startswith(hint)


def test_where_nothing_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_HOME", str(tmp_path / "nothing"))
    error = refused(profile="bob")
    assert str(error) == "there is no profile bob; no profile is saved yet"
    assert error.hint == "save it: trade login --profile bob"
    assert list(tmp_path.iterdir()) == [], "reading makes nothing"
