"""Flags, then the environment, then defaults; what files say is in test_profiles.py."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tradesdk_cli.config.settings import Settings, resolve
from tradesdk_cli.errors import ConfigProblem, UsageProblem

from .._rows import each_of
from ._services import Scripted
from ._terminal import Terminal


def test_defaults() -> None:
    found, usual = resolve({}, {}), Settings()
    told = [each.name for each in fields(Settings) if each.compare]
    assert [getattr(found, name) for name in told] == [getattr(usual, name) for name in told]
    assert "hidden" not in repr(resolve({}, {"TRADE_API_KEY": "hidden"}))


A, M, X = "https://a.example", "https://m.example", "https://x.example"
BOTH = {"TRADE_MARKET_BASE_URL": M, "TRADE_BASE_URL": A}


@each_of(
    ("flags", "environ", "wanted"),
    [
        ({"mock": False}, {"TRADE_MOCK": "1", "TRADE_HOME": "/there"}, {"mock": False, "home": Path("/there")}),
        *(({}, {"TRADE_MAX_RETRIES": text}, {"retries": most}) for text, most in (("0", 0), (" 5 ", 5), ("", None))),
        *(({}, {"TRADE_MOCK": text}, {"mock": True}) for text in ("1", "yes", "TRUE")),
        *(({}, {"TRADE_MOCK": text}, {"mock": False}) for text in ("0", "")),
        ({"base_url": X}, {"TRADE_MOCK": "1"}, {"mock": False}),
        ({"world": "side", "mock": False}, {}, {"mock": True}),
        ({}, {"TRADE_BASE_URL": A}, {"market_url": A}),
        ({}, BOTH, {"market_url": M}),
        ({"base_url": X}, BOTH, {"market_url": X}),
    ],
)
def test_what_counts(flags: dict[str, Any], environ: dict[str, str], wanted: dict[str, Any]) -> None:
    found = resolve(flags, environ)
    assert {name: getattr(found, name) for name in wanted} == wanted


@each_of(
    ("flags", "environ", "named"),
    [
        ({}, {"TRADE_MOCK": "perhaps"}, "TRADE_MOCK"),
        *(({}, {"TRADE_MAX_RETRIES": text}, "TRADE_MAX_RETRIES") for text in ("6", "-1", "many", "1.0")),
        ({"world": "../../etc"}, {}, "--world"),
        ({"mock": True, "base_url": X}, {}, "exclude"),
        ({"base_url": " "}, {}, "--base-url"),
        ({"profile": "../x"}, {}, "--profile"),
        *(({"timeout": seconds}, {}, "--timeout") for seconds in (0.0, -1.0, float("nan"), 1e9)),
    ],
)
def test_unusable_values_are_named(flags: dict[str, Any], environ: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigProblem if environ else UsageProblem, match=named):
        resolve(flags, environ)


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
