"""Flags, then the environment, then defaults; what files say is in test_profiles.py."""

from dataclasses import fields
from pathlib import Path

import pytest

from tradesdk_cli.config.settings import Settings, requested_output, resolve
from tradesdk_cli.errors import ConfigProblem, UsageProblem

from .._rows import each_of
from ._services import Scripted
from ._terminal import Terminal


def test_defaults() -> None:
    found, usual = resolve({}, {}), Settings()
    told = [each.name for each in fields(Settings) if each.compare]
    assert [getattr(found, name) for name in told] == [getattr(usual, name) for name in told]


def test_flags_count_more_than_the_environment() -> None:
    environ = {"TRADE_MOCK": "1", "TRADE_HOME": "/somewhere"}
    settings = resolve({"mock": False}, environ)
    assert (settings.mock, settings.home) == (False, Path("/somewhere"))


@each_of(("value", "most"), [("0", 0), (" 5 ", 5), ("", None)])
def test_trade_max_retries(value: str, most: int | None) -> None:
    assert resolve({}, {"TRADE_MAX_RETRIES": value}).retries == most


@each_of(("value", "on"), [("1", True), ("yes", True), ("TRUE", True), ("0", False), ("", False)])
def test_trade_mock(value: str, on: bool) -> None:
    assert resolve({}, {"TRADE_MOCK": value}).mock is on


def test_a_base_url_on_the_command_line_turns_the_mock_of_the_environment_off() -> None:
    assert resolve({"base_url": "https://x.example"}, {"TRADE_MOCK": "1"}).mock is False


def test_unusable_values_are_named() -> None:
    with pytest.raises(ConfigProblem, match="TRADE_MOCK"):
        resolve({}, {"TRADE_MOCK": "perhaps"})
    with pytest.raises(UsageProblem, match="--world"):
        resolve({"world": "../../etc"}, {})
    with pytest.raises(UsageProblem, match="exclude"):
        resolve({"mock": True, "base_url": "https://x.example"}, {})
    for value in ("6", "-1", "many", "1.0"):
        with pytest.raises(ConfigProblem, match="TRADE_MAX_RETRIES"):
            resolve({}, {"TRADE_MAX_RETRIES": value})
    with pytest.raises(UsageProblem, match="--base-url"):
        resolve({"base_url": " "}, {})
    with pytest.raises(UsageProblem, match="--profile"):
        resolve({"profile": "../x"}, {})
    for seconds in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(UsageProblem, match="--timeout"):
            resolve({"timeout": seconds}, {})


def test_where_market_data_is() -> None:
    both = {"TRADE_MARKET_BASE_URL": "https://m.example", "TRADE_BASE_URL": "https://a.example"}
    assert resolve({}, {"TRADE_BASE_URL": "https://a.example"}).market_url == "https://a.example"
    assert resolve({}, both).market_url == "https://m.example"
    assert resolve({"base_url": "https://flag.example"}, both).market_url == "https://flag.example"


def test_a_world_implies_the_mock() -> None:
    assert resolve({"world": "side", "mock": False}, {}).mock is True


def test_the_key_is_not_in_the_repr() -> None:
    assert "hidden" not in repr(resolve({}, {"TRADE_API_KEY": "hidden"}))


@each_of(
    ("argv", "form"),
    [
        (["agents", "list", "-o", "json", "--bogus"], "json"),
        (["--output=ndjson", "agents"], "ndjson"),
        (["-ojson", "x", "-otable"], "table"),
        (["-o", "nonsense"], None),
        (["-o"], None),
    ],
)
def test_the_format_of_a_line_that_cannot_be_parsed(argv: list[str], form: str | None) -> None:
    assert requested_output(argv) == form


@each_of(
    ("argv", "first"),
    [
        (("-o", "table", "account", "show"), "id "),
        (("account", "show", "-o", "table"), "id "),
        (("account", "-o", "table", "show"), "id "),
        (("-o", "json", "account", "show", "-o", "table"), "id "),
        (("-o", "table", "account", "show", "-o", "json"), "{"),
    ],
)
def test_global_options_stand_anywhere_and_the_later_wins(world: Terminal, argv: tuple[str, ...], first: str) -> None:
    run = world(*argv)
    assert run.code == 0
    assert run.out.startswith(first)


def test_no_mock_after_the_verb_undoes_mock(world: Terminal) -> None:
    assert world("--mock", "account", "show", "--no-mock").json["email"].startswith("shared@")


def test_base_url_from_a_flag(world: Terminal) -> None:
    url = world.env.pop("TRADE_BASE_URL")
    assert world("account", "show").code == 3
    assert world("account", "show", "--base-url", url).code == 0
    assert world("account", "show", "--base-url", f"{url}/v1/").code == 0


def test_key_from_stdin_needs_one(trade: Terminal, service: Scripted) -> None:
    assert trade("login", "--api-key-stdin").problem["code"] == "configuration"
    run = trade("login", "--api-key-stdin", answers="typed\n")
    assert run.code == 2
    assert service.seen == []


@pytest.mark.long
def test_how_often_a_call_is_sent(trade: Terminal, service: Scripted) -> None:
    service.fails(503, "service_unavailable", "later", Retry_After="0")
    for most in (0, 2):
        service.seen.clear()
        assert trade("account", "show", env={"TRADE_MAX_RETRIES": str(most)}).code == 10
        assert len(service.seen) == most + 1


def test_colors(world: Terminal) -> None:
    agents = ("agents", "list")
    assert "\x1b[" in world(*agents, tty=True).out
    assert "\x1b[" not in world(*agents, tty=True, env={"NO_COLOR": "1"}).out
    assert "\x1b[" not in world(*agents, tty=True, env={"TERM": "dumb"}).out
    assert "\x1b[" not in world(*agents, "-o", "table").out
    assert "\x1b[" in world(*agents, "-o", "table", env={"FORCE_COLOR": "1"}).out
    assert "\x1b[" not in world(*agents, "-o", "table", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out
    assert "\x1b[" not in world("agents", "get", "nope", tty=True, env={"NO_COLOR": "1"}).err
    assert "\x1b[31m" in world("agents", "get", "nope", tty=True).err
