"""What commands keep for completion: bounded, private, and nothing in it that a shell could act on."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tradesdk_cli import idcache
from tradesdk_cli.completion.candidates import BETWEEN
from tradesdk_cli.config.settings import Settings

from .._texts import texts
from ._services import Scripted
from ._terminal import Terminal

HOSTILE = (
    "$(touch pwned)",
    "`id`",
    "a;b",
    "a b",
    "a'b",
    'a"b',
    "-rf",
    "a\nb",
    "\x1b[31m",
    "a\u202eb",
    "*",
    "~",
    "",
    "x" * 81,
)


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    idcache.listen(True)
    yield
    idcache.listen(False)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(mock=True, home=tmp_path)


def agent(agent_id: str, name: str = "calm") -> dict[str, Any]:
    return {"id": agent_id, "name": name, "status": "idle"}


def test_what_was_seen_last_comes_first_and_there_is_a_bound(settings: Settings) -> None:
    for number in range(idcache.MOST):
        idcache.note("AgentSummary", [agent(f"old{number}")])
    idcache.keep(settings)
    idcache.note("Agent", [agent("new", "fast")])
    idcache.keep(settings)
    found = idcache.read(settings, "agents")
    assert (next(iter(found)), found["new"], len(found)) == ("new", "fast, idle", idcache.MOST)
    for number in range(2 * idcache.MOST):
        idcache.note("Signal", [{"token_symbol": f"T{number}"}])
    idcache.keep(settings)
    assert len(idcache.read(settings, "tokens")) == idcache.MOST
    assert idcache.file_of(settings).stat().st_size < 1_000_000


def test_words_stay_when_a_token_is_seen_again_without(settings: Settings) -> None:
    tokens: list[dict[str, object]] = [{"tokens": [{"symbol": "ETH", "name": "Ether"}]}, {"token_symbol": "ETH"}]
    for rows in (tokens, tokens[1:]):
        idcache.note("Other", rows)
        idcache.keep(settings)
        assert idcache.read(settings, "tokens") == {"ETH": "Ether"}


def test_what_was_not_used_for_long_is_forgotten(tmp_path: Path) -> None:
    worlds = [Settings(mock=True, home=tmp_path, world=f"w{number}") for number in range(idcache.MOST_FILES + 2)]
    for number, one in enumerate(worlds):
        idcache.note("AgentSummary", [agent("agt_1")])
        idcache.keep(one)
        os.utime(idcache.file_of(one), (number, number))
    idcache.note("AgentSummary", [agent("agt_2")])
    idcache.keep(worlds[-1])
    kept = [number for number, one in enumerate(worlds) if idcache.read(one, "agents")]
    assert kept == list(range(2, idcache.MOST_FILES + 2))


def test_it_is_for_nobody_else_and_written_only_when_it_is_new(settings: Settings) -> None:
    idcache.note("Wallet", [{"id": "wal_1", "label": "Main", "chain_id": 8453}])
    idcache.keep(settings)
    path = idcache.file_of(settings)
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert idcache.read(settings, "wallets") == {"wal_1": "Main, base"}
    before = path.stat().st_mtime_ns, path.stat().st_ino
    idcache.note("Wallet", [{"id": "wal_1", "label": "Main", "chain_id": 8453}])
    idcache.keep(settings)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_ids_and_symbols_are_left_out(settings: Settings, text: str) -> None:
    idcache.note("AgentSummary", [agent(text)])
    idcache.note("Trade", [{"id": "trd_1", "token_symbol": text, "direction": "BUY", "status": "open"}])
    idcache.keep(settings)
    assert idcache.read(settings, "agents") == {}
    assert idcache.read(settings, "tokens") == {}
    assert set(idcache.read(settings, "trades")) == {"trd_1"}


@given(texts())
def test_words_beside_an_id_are_plain(text: str) -> None:
    words = idcache.safe_words(text)
    assert len(words) <= 48
    assert words == "" or all(char.isascii() and (char.isalnum() or char in " _.,+-") for char in words)
    assert idcache.safe_words(words) == words


@pytest.mark.parametrize(
    "content", [b"", b"no JSON", b"[1]", b'{"agents": 1}', b'{"agents": {"agt_1": 5}}', b"[" * 100_000, b"\xff\xfe"]
)
def test_a_file_that_is_not_ours_offers_nothing(settings: Settings, content: bytes) -> None:
    path = idcache.file_of(settings)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert idcache.read(settings, "agents") == {}
    idcache.note("AgentSummary", [agent("agt_9")])
    idcache.keep(settings)
    assert set(idcache.read(settings, "agents")) == {"agt_9"}


def test_a_file_in_place_of_the_folder_is_no_error(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "completion").write_text("mine")
    idcache.note("AgentSummary", [agent("agt_1")])
    idcache.keep(settings)
    assert (tmp_path / "completion").read_text() == "mine"


def test_targets_have_files_of_their_own_and_no_key_in_them(tmp_path: Path) -> None:
    kinds = [
        Settings(home=tmp_path, base_url="https://a.example.com", api_key="key-1"),
        Settings(home=tmp_path, base_url="https://a.example.com", api_key="key-2"),
        Settings(home=tmp_path, base_url="https://b.example.com", api_key="key-1"),
        Settings(home=tmp_path, base_url="https://a.example.com", api_key="key-1", profile="work"),
        Settings(home=tmp_path, mock=True),
        Settings(home=tmp_path, mock=True, world="second"),
    ]
    paths = {idcache.file_of(one) for one in kinds}
    assert len(paths) == len(kinds)
    assert not any("key-1" in str(path) or "example" in str(path) for path in paths)


def test_hostile_names_reach_no_shell(trade: Terminal, service: Scripted) -> None:
    hostile = "$(touch pwned) `id` \x1b]52;c;eA==\x07 \u202e'\""
    item = {"id": "agt_1", "name": hostile, "status": "idle", "chain_id": 8453, "wallet_id": "w", "created_at": 1}
    other = item | {"id": "x;$(id)", "name": "fine"}
    service.says(200, {"data": [item, other], "pagination": {"next_cursor": None, "has_more": False}})
    assert trade("agents", "list", tty=True).code == 0
    for shell in ("bash", "zsh", "fish", "powershell"):
        words = {"_TRADE_COMPLETE": f"complete_{shell}", "_TRADE_WORDS": BETWEEN.join(["trade", "agents", "get", ""])}
        run = trade(env=words)
        first, *found = run.out.splitlines()
        assert (first, [line.partition("\t")[0] for line in found]) == ("words", ["agt_1"])
        assert not set("$`'\";\x1b\x07\u202e()") & set(run.out)


def test_a_name_that_would_have_to_be_changed_is_not_offered(trade: Terminal, service: Scripted) -> None:
    names = ["\u00dcnder", "a$b", "two  words", "sm\u00f8rt, x", "x, " + "y" * 60, "calm"]
    item = {"status": "idle", "chain_id": 8453, "wallet_id": "w", "created_at": 1}
    rows = [{"id": f"agt_{place}", "name": name} | item for place, name in enumerate(names)]
    service.says(200, {"data": rows, "pagination": {"next_cursor": None, "has_more": False}})
    assert trade("agents", "list", tty=True).code == 0
    words = {"_TRADE_COMPLETE": "complete_fish", "_TRADE_WORDS": BETWEEN.join(["trade", "agents", "get", ""])}
    _, *found = trade(env=words).out.splitlines()
    offered = {line.partition("\t")[0] for line in found}
    assert offered == {row["id"] for row in rows} | {"calm"}


def test_a_mock_that_is_empty_again_has_nothing_to_offer(trade: Terminal) -> None:
    trade("--mock", "agents", "list", tty=True)
    (path,) = (trade.home / "completion").iterdir()
    assert "agt_" in path.read_text()
    assert trade("--mock", "mock", "reset", "--yes", tty=True).code == 0
    assert not path.exists() or "agt_" not in path.read_text()


def test_a_script_keeps_nothing(own: Terminal) -> None:
    assert own("agents", "list").code == 0
    assert own("agents", "list", "--out", str(own.home / "a.csv"), tty=True).code == 0
    assert not (own.home / "completion").exists()


def test_a_command_that_failed_keeps_what_it_had_seen(own: Terminal) -> None:
    own("agents", "list", tty=True)
    (path,) = (own.home / "completion").iterdir()
    before = path.read_bytes()
    assert own("agents", "get", "agt_nobody", tty=True).code == 6
    assert path.read_bytes() == before
