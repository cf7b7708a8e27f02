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
    environ = {"TRADE_MOCK": "1", "NO_COLOR": "1", "TRADE_HOME": "/somewhere"}
    settings = resolve({"mock": False, "color": "always"}, environ)
    assert (settings.mock, settings.color, settings.home) == (False, "always", Path("/somewhere"))


@each_of(
    ("environ", "color"),
    [({"NO_COLOR": "1"}, "never"), ({"FORCE_COLOR": "1"}, "always"), ({"NO_COLOR": ""}, "auto")],
)
def test_colors_from_the_environment(environ: dict[str, str], color: str) -> None:
    assert resolve({}, environ).color == color


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
    for option in ("base_url", "market_url"):
        with pytest.raises(UsageProblem, match="is empty"):
            resolve({option: " "}, {})
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
    flags = {"base_url": "https://flag.example", "market_url": "https://market.example"}
    assert resolve(flags, both).market_url == "https://market.example"
    assert resolve({"market_url": "https://x.example"}, {"TRADE_MOCK": "1"}).mock is False
    with pytest.raises(UsageProblem, match="--market-url"):
        resolve({"market_url": "https://x.example", "world": "w"}, {})


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


def test_key_from_stdin(trade: Terminal, service: Scripted) -> None:
    service.fails(401, "unauthorized", "no")
    del trade.env["TRADE_API_KEY"]
    trade("account", "show", "--api-key-stdin", stdin="key-from-a-pipe\n")
    assert service.keys == ["Bearer key-from-a-pipe"]


def test_key_from_stdin_needs_one(trade: Terminal, service: Scripted) -> None:
    assert trade("account", "show", "--api-key-stdin").problem["code"] == "configuration"
    run = trade("account", "show", "--api-key-stdin", answers="typed\n")
    assert run.code == 2
    assert service.seen == []


def test_no_retry_sends_once(trade: Terminal, service: Scripted) -> None:
    service.fails(503, "service_unavailable", "later", Retry_After="0")
    assert trade("account", "show", "--no-retry").code == 10
    assert len(service.seen) == 1


def test_colors(world: Terminal) -> None:
    agents = ("agents", "list")
    assert "\x1b[" in world(*agents, tty=True).out
    assert "\x1b[" not in world(*agents, tty=True, env={"NO_COLOR": "1"}).out
    assert "\x1b[" not in world(*agents, tty=True, env={"TERM": "dumb"}).out
    assert "\x1b[" not in world(*agents, "-o", "table").out
    assert "\x1b[" in world(*agents, "-o", "table", env={"FORCE_COLOR": "1"}).out
    assert "\x1b[" in world(*agents, "-o", "table", "--color", "always", env={"NO_COLOR": "1"}).out
    assert "\x1b[" not in world("agents", "get", "nope", tty=True, env={"NO_COLOR": "1"}).err
    assert "\x1b[31m" in world("agents", "get", "nope", tty=True).err
