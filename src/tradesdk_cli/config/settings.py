"""Settings of one run, from flags, the environment, the project file, the profile and defaults, in this order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tradesdk.local import Profiles, data_folder
from tradesdk_cli.choices import FORMATS, Times
from tradesdk_cli.config.entries import (
    ENTRIES,
    PROJECT_FILE,
    check,
    of_environment,
)
from tradesdk_cli.config.files import CONFIG_FILE, Files, expanded, read_files
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.redact import looks_secret
from tradesdk_cli.text import bare_key, one_line

DEFAULT = "default"
"""The source of a setting that is not set."""


@dataclass(frozen=True, eq=False)  # generating __eq__ would cost every start two milliseconds
class Settings:
    """All settings of a command."""

    output: str = "auto"
    fields: tuple[str, ...] = ()
    """Fields to print, dotted where nested; empty: all."""
    query: str | None = None
    """A JMESPath expression that selects from the result."""
    out: Path | None = None
    """The file for the result, instead of stdout."""
    times: Times | None = None
    """How times are printed; None: as usual in the format."""
    profile: str | None = None
    """The profile in use, if any."""
    mock: bool = False
    world: str = "default"
    base_url: str | None = None
    market_url: str | None = None
    """The address of market data: its own setting, or else the base URL."""
    rpc_url: str | None = None
    """The nodes of Base that prove payments: hosts only, as a path may be a key."""
    allow_upfront: bool = False
    """Whether to pay a service that takes the money before it does the work."""
    fleet_url: str | None = None
    """The fleet's PostgreSQL database: host and name only, as the URL may have a password."""
    fleet: str | None = field(default=None, repr=False)
    """Its whole URL; None without a fleet, and in a mock world, which has its own ledger and limits."""
    api_key: str | None = field(default=None, repr=False)
    """The API key of the environment."""
    timeout: float | None = None
    retries: int | None = None
    """Retries of a call; None: the SDK's default."""
    verbose: int = 0
    debug: bool = False
    curl: bool = False
    program: str = "trade"
    """The beginning of commands in hints, such as `trade --profile work`."""
    home: Path | None = None
    """`TRADE_HOME`; None means the platform's own folders."""
    table: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The settings of the profile in use."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The source of each setting: `flag --output`, `TRADE_BASE_URL`, `.trade.toml`, `profile work`, `config.toml`,
    `default`. Also of the key (`api_key`), without reading it."""
    saved: Profiles = field(default_factory=Profiles, compare=False, repr=False)
    """The profiles of `config.toml`."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """Warnings about unexpected sources of settings."""

    def data_folder(self) -> Path:
        """The folder for data."""
        return data_folder(None) if self.home is None else self.home

    def config_folder(self) -> Path:
        """The folder of `config.toml` and the saved keys."""
        if self.saved.file is None:
            raise ConfigProblem("there is no home folder for settings", "set HOME, or TRADE_HOME to a folder")
        return self.saved.file.parent


def settings_of(flags: Mapping[str, Any], environ: Mapping[str, str], *, new_profile: bool = False) -> Settings:
    """The settings of this run, including files; see `resolve`."""
    return resolve(flags, environ, read_files(environ), new_profile=new_profile)


def resolve(
    flags: Mapping[str, Any], environ: Mapping[str, str], files: Files | None = None, *, new_profile: bool = False
) -> Settings:
    """The settings from `flags` (absent or None: not given), `environ` and `files`.

    With `new_profile`, or without `files`, the named profile may not exist.
    """
    _check_flags(flags)
    new_profile = new_profile or files is None
    files = files or Files()
    saved = files.saved
    for name in saved.config.keys() - {"profile", "profiles"}:
        found = f"{saved.file} has {one_line(name, 60)} outside of a profile"
        raise ConfigProblem(found, "it belongs below [profiles.NAME]")

    # Each source of settings: values with their source.
    names = [name for name in ENTRIES if name not in ("kind", "key")]
    typed = {name: (flags[name], f"flag --{name.replace('_', '-')}") for name in names if flags.get(name)}
    if flags.get("world") is not None:
        typed.setdefault("mock", (True, "flag --world"))
    if flags.get("mock") is False:
        typed.setdefault("mock", (False, "flag --no-mock"))
    # A base URL also moves the market data, unless a source of at least the same rank sets the market data's URL.
    if flags.get("base_url"):
        typed.setdefault("mock", (False, "flag --base-url"))
        typed["market_url"] = typed["base_url"]
    variables = {name: (value, ENTRIES[name].variable) for name, value in of_environment(environ).items()}
    if "base_url" in variables:
        variables.setdefault("market_url", variables["base_url"])
    if url := environ.get("TRADE_FLEET", "").strip():
        variables["fleet_url"] = url, "TRADE_FLEET"
    values = {} if files.project is None else check(files.project.table, str(files.project.path), project=True)
    project = {name: (value, PROJECT_FILE) for name, value in values.items()}
    usual: dict[str, tuple[Any, str]] = {name: (ENTRIES[name].default, DEFAULT) for name in names}
    if saved.default is not None:
        usual["profile"] = saved.default, CONFIG_FILE
    profile: str | None = (usual | project | variables | typed)["profile"][0]
    table: Mapping[str, Any] = {}
    if profile is not None and (profile in saved.tables or not new_profile):
        table = check(saved.named(profile), f"profile {profile} of {saved.file}", project=False)
    own = {name: (value, f"profile {profile}") for name, value in table.items() if name in names}
    if "kind" in table:
        own["mock"] = table["kind"] == "mock", f"profile {profile}"
    if table.get("kind") == "mock" and flags.get("profile"):  # a person named it, so it counts as --mock
        if flags.get("base_url"):
            raise UsageProblem(f"the profile {profile} is a mock, and --base-url is not", "leave one of them out")
        typed.setdefault("mock", own["mock"])

    fields = tuple(name.strip() for name in flags["fields"].split(",")) if flags.get("fields") is not None else ()
    if not all(fields):
        hint = "for example: --fields id,name,stats.win_rate_pct"
        raise UsageProblem("--fields takes names with commas between them", hint)
    chosen = usual | own | project | variables | typed
    if chosen["market_url"][0] is None:
        chosen["market_url"] = chosen["base_url"]
    sources = {name: source for name, (_, source) in chosen.items()}
    plain: dict[str, Any] = {name: value for name, (value, _) in chosen.items()}
    plain["fleet_url"] = _without_user(plain["fleet_url"])
    fleet, mock, home = chosen["fleet_url"][0], chosen["mock"][0], environ.get("TRADE_HOME")
    key, store = bare_key(environ.get("TRADE_API_KEY", "")), table.get("key")
    sources["api_key"] = "TRADE_API_KEY" if key else f"profile {profile} ({store})" if store else DEFAULT
    over = ["mock"] if mock else [name for name in ("base_url", "market_url") if name in table]
    over += ["api_key"] * (not mock and store is not None)
    over = [name for name in over if flags.get("profile") and sources[name].startswith("TRADE_")]
    by_file = mock and sources["mock"].startswith((PROJECT_FILE, "profile"))
    unused = [name for name in ("TRADE_BASE_URL", "TRADE_MARKET_BASE_URL") if by_file and environ.get(name)]
    return Settings(
        **plain,
        fields=fields,
        query=flags.get("query"),
        out=expanded(flags["out"]) if flags.get("out") else None,
        times=flags.get("times"),
        fleet=None if mock else fleet,
        api_key=key or None,
        debug=bool(flags.get("debug")),
        curl=bool(flags.get("curl")),
        program=program_of(flags),
        home=data_folder(home) if home else None,
        table=table,
        sources=sources,
        saved=saved,
        warnings=(
            *(f"{sources[name]} overrides {name} of profile {profile}" for name in over),
            *(f"{name} is ignored: {sources['mock']} turns the mock on (--no-mock turns it off)" for name in unused),
        ),
    )


def _check_flags(flags: Mapping[str, Any]) -> None:
    if flags.get("base_url") and (flags.get("mock") or flags.get("world")):
        raise UsageProblem("--mock and --base-url exclude each other", "leave one of them out")
    examples = {"base_url": "https://api.example.com", "world": "test-1", "profile": "work", "timeout": "10"}
    for name, example in examples.items():
        value, entry, option = flags.get(name), ENTRIES[name], f"--{name.replace('_', '-')}"
        if value is not None and not entry.fits(value):
            raise UsageProblem(f"{option} takes {entry.rule}", f"for example: {option} {example}")


def program_of(flags: Mapping[str, Any]) -> str:
    """The beginning of the next command, with the options that chose the profile and the mock."""
    program, profile = "trade", flags.get("profile")
    if profile and Profiles.is_name(profile):
        program += f" --profile {'NAME' if looks_secret(profile) else profile}"
    if flags.get("world"):
        return f"{program} --world {flags['world']}"
    return f"{program} --mock" if flags.get("mock") else program


def is_loopback(host: str) -> bool:
    """True for this machine's own addresses. The SDK's is in a module that completion would load for nothing else."""
    if host == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_user(url: str | None) -> str | None:
    """Host and database of a URL."""
    if url is None:
        return None
    scheme, _, rest = re.split(r"[?#]", url)[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if rest else "…"


def requested_output(argv: list[str]) -> str | None:
    """The last `-o` of a command line that could not be parsed, so that the error has this format."""
    typed = re.findall(r"(?<!\S)(?:-o|--output)[= ]?(\S+)", " ".join(argv))
    return next((word for word in reversed(typed) if word in FORMATS), None)
