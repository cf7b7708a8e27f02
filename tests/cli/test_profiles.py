"""Settings files: profiles of the user, the file of a project, and which value counts most."""

from typing import Any

import pytest

from tradesdk import ConfigError
from tradesdk.local import Profiles
from tradesdk_cli.config.entries import IN_PROFILE, IN_PROJECT
from tradesdk_cli.config.files import Files
from tradesdk_cli.config.settings import resolve
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.output.printer import Output
from tradesdk_cli.run import Run

from .._rows import each_of
from ._settings import CONFIG, files

WORK = "profile work"


# Which counts most


def test_flag_environment_project_profile_default() -> None:
    found = files({"output": "tsv"}, work={"output": "csv", "retries": 2, "timeout": 5, "world": "w"})
    settings = resolve({}, {"TRADE_MAX_RETRIES": "3"}, found)
    told = (settings.output, settings.retries, settings.timeout, settings.world, settings.verbose)
    assert told == ("tsv", 3, 5, "w", 0)
    sources = settings.sources
    assert {name: sources[name] for name in ("output", "retries", "timeout", "world", "verbose", "profile")} == {
        "output": ".trade.toml",
        "retries": "TRADE_MAX_RETRIES",
        "timeout": WORK,
        "world": WORK,
        "verbose": "default",
        "profile": "config.toml",
    }


@each_of(
    ("flags", "environ", "in_project", "name", "source"),
    [
        ({"profile": "a"}, {"TRADE_PROFILE": "b"}, "c", "a", "flag --profile"),
        ({}, {"TRADE_PROFILE": "b"}, "c", "b", "TRADE_PROFILE"),
        ({}, {}, "c", "c", ".trade.toml"),
        ({}, {"TRADE_PROFILE": " "}, None, "work", "config.toml"),
    ],
)
def test_which_profile(
    flags: dict[str, str], environ: dict[str, str], in_project: str | None, name: str, source: str
) -> None:
    found = files(None if in_project is None else {"profile": in_project}, a={}, b={}, c={}, work={})
    settings = resolve(flags, environ, found)
    assert (settings.profile, settings.sources["profile"]) == (name, source)


def test_a_profile_called_default_is_the_default() -> None:
    assert resolve({}, {}, files(default=None, default_={}, work={})).profile is None
    assert resolve({}, {}, Files(saved=Profiles({"profiles": {"default": {}}}, CONFIG))).profile == "default"


def test_the_environment_goes_before_a_profile_and_says_so_when_a_flag_named_it() -> None:
    found = files(work={"base_url": "https://a.example", "key": "file"})
    environ = {"TRADE_BASE_URL": "https://b.example", "TRADE_API_KEY": "k"}
    settings = resolve({"profile": "work"}, environ, found)
    assert (settings.base_url, settings.sources["base_url"]) == ("https://b.example", "TRADE_BASE_URL")
    assert settings.warnings == (
        "TRADE_BASE_URL overrides base_url of profile work",
        "TRADE_API_KEY overrides api_key of profile work",
    )
    assert resolve({}, environ, found).warnings == ()
    assert resolve({"profile": "work"}, {}, found).warnings == ()


def test_an_address_moves_the_market_data_unless_somebody_who_counts_more_says_where_it_is() -> None:
    found = files(work={"base_url": "https://a.example", "market_url": "https://m.example"})
    assert resolve({}, {}, found).market_url == "https://m.example"
    assert resolve({}, {"TRADE_BASE_URL": "https://b.example"}, found).market_url == "https://b.example"
    plain = resolve({}, {}, files(work={"base_url": "https://a.example"}))
    assert (plain.market_url, plain.sources["market_url"]) == ("https://a.example", WORK)


# Mocks


def test_a_profile_of_kind_mock_is_the_mock_with_its_world() -> None:
    found = files(work={"kind": "mock", "world": "side"})
    settings = resolve({}, {}, found)
    assert (settings.mock, settings.world, settings.sources["mock"]) == (True, "side", WORK)
    assert resolve({"world": "other"}, {}, found).world == "other"
    assert resolve({"mock": False}, {}, found).mock is False
    assert resolve({}, {"TRADE_MOCK": "0"}, found).mock is False
    assert resolve({"base_url": "https://x.example"}, {}, found).mock is False


def test_a_mock_is_never_undone_by_an_address_of_the_environment() -> None:
    environ = {"TRADE_BASE_URL": "https://live.example", "TRADE_MOCK": "0"}
    named = resolve({"profile": "paper"}, environ, files(paper={"kind": "mock"}, work={}))
    assert named.mock is True, "a person named it"
    del environ["TRADE_MOCK"]
    settings = resolve({}, environ, files(work={"kind": "mock"}))
    assert settings.mock is True
    told = f"TRADE_BASE_URL is ignored: {WORK} turns the mock on (--no-mock turns it off)"
    assert settings.warnings == (told,)
    assert resolve({}, environ, files({"mock": True}, work={})).mock is True


def test_a_project_that_turns_the_mock_on_says_what_it_leaves_alone() -> None:
    found = files({"mock": True}, work={"base_url": "https://a.example"})
    environ = {"TRADE_BASE_URL": "https://live.example"}
    assert resolve({}, environ, found).warnings == (
        "TRADE_BASE_URL is ignored: .trade.toml turns the mock on (--no-mock turns it off)",
    )
    assert resolve({}, {}, found).warnings == resolve({"mock": False}, environ, found).warnings == ()
    assert resolve({"mock": True}, environ, found).warnings == ()


def test_a_mock_and_an_address_on_one_line() -> None:
    with pytest.raises(UsageProblem, match="paper is a mock"):
        resolve({"profile": "paper", "base_url": "https://x.example"}, {}, files(paper={"kind": "mock"}))


def test_trade_mock_goes_before_a_live_profile_and_says_so() -> None:
    settings = resolve({"profile": "work"}, {"TRADE_MOCK": "1"}, files(work={"base_url": "https://a.example"}))
    assert settings.mock is True
    assert settings.warnings == ("TRADE_MOCK overrides mock of profile work",)


# What may stand where


@each_of("name", ["base_url", "market_url", "key", "kind", "api_key", "API-KEY"])
def test_a_project_may_not_say_where_requests_and_keys_go(name: str) -> None:
    with pytest.raises(ConfigProblem, match=name):
        resolve({}, {}, files({name: "https://evil.example"}))


def test_a_project_turns_the_mock_on_only() -> None:
    with pytest.raises(ConfigProblem, match="turn the mock on, not off"):
        resolve({}, {}, files({"mock": False}))


WRONG: dict[str, list[Any]] = {
    "base_url": [1, "", ["https://a.example"]],
    "market_url": [False],
    "kind": ["paper", 1, ["mock"]],
    "fleet_url": ["postgresql://me:a-key-that-was-put-here@db.example/bots", "redis://db.example", 3],
    "key": ["a-key-that-was-put-here", True],
    "profile": ["../x", 3],
    "mock": [False, "true", 1],
    "world": ["../../etc", ""],
    "output": ["xml", ["json"]],
    "timeout": [0, -1, "10", True, float("nan"), float("inf")],
    "retries": [6, -1, True, "no", 1.0],
    "verbose": [3, True, 1.0, "1"],
    "allow_upfront": ["true", 1, None],
}


@each_of("name", list(WRONG))
def test_a_wrong_type_is_named_and_a_key_is_not_repeated(name: str) -> None:
    assert set(WRONG) == {*IN_PROFILE, *IN_PROJECT}
    in_project = name in IN_PROJECT
    for value in WRONG[name]:
        found = files({name: value} if in_project else None, work={} if in_project else {name: value})
        with pytest.raises(ConfigProblem) as caught:
            resolve({}, {}, found)
        assert caught.value.message.startswith(f"{name} in ")
        assert "a-key-that-was-put-here" not in caught.value.message + str(caught.value.hint)


@each_of(
    ("found", "hint"),
    [
        (files({"ouput": "json"}), "did you mean output?"),
        (files(work={"base-url": "https://a.example"}), "did you mean base_url?"),
        (files(work={"mock": True}), "did you mean kind?"),
        (files(work={"zzz": 1}), "there are world, base_url, "),
        (files(work={"fields": "id"}), "there are world, base_url, "),  # every command has others
        (Files(saved=Profiles({"output": "json", "profiles": {}}, CONFIG)), "it belongs below [profiles.NAME]"),
        (Files(saved=Profiles({"profiles": {"../x": {}}}, CONFIG)), "names are letters, digits"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(found: Files, hint: str) -> None:
    with pytest.raises((ConfigError, ConfigProblem)) as caught:
        resolve({}, {}, found)
    assert isinstance(caught.value, ConfigError | ConfigProblem)
    assert str(caught.value.hint).startswith(hint)


@each_of("config", [{"profiles": 1}, {"profiles": {"a": 1}}, {"profile": 1}, {"profiles": [1]}])
def test_misshapen_profiles(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml"):
        resolve({}, {}, Files(saved=Profiles(config, CONFIG)))


# Where it goes


@each_of(
    ("flags", "found", "text", "fields"),
    [
        ({"mock": True}, files(), "mock world default", {"mode": "mock", "world": "default"}),
        ({"world": "w"}, files(), "mock world w", {"mode": "mock", "world": "w"}),
        (
            {},
            files(work={"base_url": "https://user:pw@api.example.com/x"}),
            "profile work · api.example.com · live",
            {"mode": "live", "host": "api.example.com", "profile": "work"},
        ),
        (
            {"base_url": "http://[::1]:8402"},
            files(default=None),
            "[::1]:8402 · this machine",
            {"mode": "local", "host": "[::1]:8402"},
        ),
        ({}, files(default=None), "no address · live", {"mode": "live", "host": None}),
        (
            {"base_url": "https://[bad"},
            files(default=None),
            None,
            {"mode": "live", "host": "an address that cannot be read"},
        ),
    ],
)
def test_the_target(flags: dict[str, Any], found: Files, text: str | None, fields: dict[str, Any]) -> None:
    settings = resolve(flags, {}, found)
    target = Run(settings, Output(settings, {})).target()
    assert target.text == (text or "an address that cannot be read · live")
    assert target.fields == fields


def test_the_target_of_what_is_bought() -> None:
    found = files(work={"base_url": "https://a.example", "market_url": "https://m.example"})
    settings = resolve({}, {}, found)
    assert Run(settings, Output(settings, {})).target(market=True).text == "profile work · m.example · live"
