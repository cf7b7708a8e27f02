"""Settings of one run: flags, then the environment, the project's file, the profile, defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from tradesdk.local import Profiles
from tradesdk_cli.choices import FORMATS
from tradesdk_cli.config.entries import (
    ENTRIES,
    PROJECT_FILE,
    check,
    of_environment,
)
from tradesdk_cli.config.files import CONFIG_FILE, Files, data_folder, expanded, read_files
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.redact import looks_secret
from tradesdk_cli.text import bare_key, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tradesdk_cli.choices import Times


DEFAULT = "default"
"""The source of what nobody set."""


@dataclass(frozen=True, eq=False)  # comparing would cost every start two milliseconds
class Settings:
    """Everything a command needs to know about how it was called."""

    output: str = "auto"
    fields: tuple[str, ...] = ()
    """Which fields are printed, dotted where they are nested; empty: all."""
    query: str | None = None
    """A JMESPath expression that selects from the result."""
    out: Path | None = None
    """The file that takes the result instead of stdout."""
    times: Times | None = None
    """How moments are printed; None: as is usual in the format."""
    profile: str | None = None
    """The profile in use; None when there is none."""
    mock: bool = False
    world: str = "default"
    base_url: str | None = None
    market_url: str | None = None
    """Where market data is bought: by its own setting, or where everything else is."""
    rpc_url: str | None = None
    """The nodes of Base that are asked what was paid: the hosts only, as a path may be a key."""
    allow_upfront: bool = False
    """Whether a service is paid that takes the money before it does the work."""
    fleet_url: str | None = None
    """The PostgreSQL database of the fleet: host and database only, as the URL may have a password."""
    fleet: str | None = field(default=None, repr=False)
    """Its whole URL; None without a fleet, and in a mock world, whose money and limits are its own."""
    api_key: str | None = field(default=None, repr=False)
    """The key of the environment."""
    timeout: float | None = None
    retries: int | None = None
    """How often a call is sent again; None: as the SDK does it."""
    verbose: int = 0
    debug: bool = False
    curl: bool = False
    program: str = "trade"
    """What begins a command that continues in the same place, for hints."""
    home: Path | None = None
    """`TRADE_HOME`; None means the platform's own folders."""
    table: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the profile in use says."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where each setting came from: `flag --output`, `TRADE_BASE_URL`, `.trade.toml`, `profile work`, `config.toml`,
    `default`. Of the key (`api_key`) as well, which is not read for that."""
    files: Files = field(default_factory=Files, compare=False, repr=False)
    """What the settings files say."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """Settings of other places than somebody may expect."""

    def data_folder(self) -> Path:
        """Where state is kept between commands.

        Raises:
            ConfigProblem: there is no home folder.
        """
        return data_folder(None) if self.home is None else self.home

    def config_folder(self) -> Path:
        """Where `config.toml` and the kept keys are.

        Raises:
            ConfigProblem: there is no home folder.
        """
        if self.files.config_file is None:
            raise ConfigProblem("there is no home folder for settings", "set HOME, or TRADE_HOME to a folder")
        return self.files.config_file.parent


def settings_of(flags: Mapping[str, Any], environ: Mapping[str, str], *, new_profile: bool = False) -> Settings:
    """The settings of this run, files included: `resolve` says more."""
    return resolve(flags, environ, read_files(environ), new_profile=new_profile)


def resolve(
    flags: Mapping[str, Any], environ: Mapping[str, str], files: Files | None = None, *, new_profile: bool = False
) -> Settings:
    """The settings that `flags` (absent or None means not given), `environ` and `files` amount to.

    With `new_profile`, or without `files`, the profile that is named need not be there.

    Raises:
        UsageProblem: flags that contradict each other or have unusable values.
        ConfigProblem: a variable or a file with an unusable value, or a profile that is not there.
    """
    _check_flags(flags)
    new_profile = new_profile or files is None
    files = files or Files()
    for name in files.config.keys() - {"profile", "profiles"}:
        found = f"{files.config_file} has {one_line(name, 60)} outside of a profile"
        raise ConfigProblem(found, "it belongs below [profiles.NAME]")
    variables = of_environment(environ)
    layers: list[tuple[Mapping[str, Any], str]] = []
    sources: dict[str, str] = {}

    def pick(
        name: str, *others: tuple[Any, str], then: tuple[Any, str] = (None, ""), below: tuple[Any, str] = (None, "")
    ) -> Any:
        """The value that counts most: flag, `others`, variable, `then`, files, `below`, default."""
        entry = ENTRIES[name]
        given = flags.get(name) or None  # a count of 0 was not given, and --no-mock stands among the others
        candidates = [(given, f"flag --{name.replace('_', '-')}"), *others]
        candidates += [(variables.get(name), entry.variable), then]
        candidates += [*((table.get(name), where) for table, where in layers), below]
        found = ((value, source) for value, source in candidates if value is not None)
        value, sources[name] = next(found, (entry.default, DEFAULT))
        return value

    if files.project is not None:
        layers.append((check(files.project, str(files.project_file), project=True), PROJECT_FILE))
    profile: str | None = pick("profile", below=(files.default_profile, CONFIG_FILE))
    table: Mapping[str, Any] = {}
    if profile is not None and (profile in files.profiles or not new_profile):
        table = check(files.profile(profile), f"profile {profile} of {files.config_file}", project=False)
        is_mock = {"mock": table["kind"] == "mock"} if "kind" in table else {}
        layers.append(({**table, **is_mock}, f"profile {profile}"))
    plays = table.get("kind") == "mock" and bool(flags.get("profile"))  # a person named it: as good as --mock
    if plays and flags.get("base_url"):
        raise UsageProblem(f"the profile {profile} is a mock, and --base-url is not", "leave one of them out")

    mock = pick(
        "mock",
        (True if flags.get("world") is not None else None, "flag --world"),
        (flags.get("mock"), "flag --no-mock"),
        (False if flags.get("base_url") else None, "flag --base-url"),
        (True if plays else None, layers[-1][1] if layers else ""),
    )
    base_url = pick("base_url")
    # Whoever says where the service is moves the market data too, wherever somebody who counts less says it is.
    by_flag = flags.get("base_url"), "flag --base-url"
    by_environment = variables.get("base_url"), "TRADE_BASE_URL"
    market_url = pick("market_url", by_flag, then=by_environment, below=(base_url, sources["base_url"]))
    fleet: str | None = pick("fleet_url", (environ.get("TRADE_FLEET", "").strip() or None, "TRADE_FLEET"))
    home = environ.get("TRADE_HOME")
    settings = Settings(
        output=pick("output"),
        fields=_fields(flags.get("fields")),
        query=flags.get("query"),
        out=expanded(flags["out"]) if flags.get("out") else None,
        times=flags.get("times"),
        profile=profile,
        mock=mock,
        world=pick("world"),
        base_url=base_url,
        market_url=market_url,
        rpc_url=pick("rpc_url"),
        allow_upfront=pick("allow_upfront"),
        fleet_url=_without_user(fleet),
        fleet=None if mock else fleet,
        api_key=bare_key(environ.get("TRADE_API_KEY", "")) or None,
        timeout=pick("timeout"),
        retries=pick("retries"),
        verbose=pick("verbose"),
        debug=bool(flags.get("debug")),
        curl=bool(flags.get("curl")),
        program=program_of(flags),
        home=expanded(home) if home else None,
        table=table,
        sources=sources,
        files=files,
    )
    place = table.get("key")
    sources["api_key"] = "TRADE_API_KEY" if settings.api_key else f"profile {profile} ({place})" if place else DEFAULT
    return replace(settings, warnings=tuple(_surprises(settings, flags, environ)))


def _check_flags(flags: Mapping[str, Any]) -> None:
    if flags.get("base_url") and (flags.get("mock") or flags.get("world")):
        raise UsageProblem("--mock and --base-url exclude each other", "leave one of them out")
    examples = {"base_url": "https://api.example.com", "world": "test-1", "profile": "work", "timeout": "10"}
    for name, example in examples.items():
        value, entry, option = flags.get(name), ENTRIES[name], f"--{name.replace('_', '-')}"
        if value is not None and not entry.fits(value):
            raise UsageProblem(f"{option} takes {entry.rule}", f"for example: {option} {example}")


def _surprises(settings: Settings, flags: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Where a variable and a file do not say the same, and somebody may expect the other one."""
    sources, table = settings.sources, settings.table
    if settings.mock and sources["mock"].startswith((PROJECT_FILE, "profile")):
        named = [name for name in ("TRADE_BASE_URL", "TRADE_MARKET_BASE_URL") if environ.get(name)]
        return [f"{name} is left alone: {sources['mock']} turns the mock on (--no-mock turns it off)" for name in named]
    if not flags.get("profile"):
        return []
    if settings.mock:
        over = ["mock"] if table.get("kind") != "mock" else []
    else:
        over = [name for name in ("base_url", "market_url") if table.get(name)] + ["api_key"] * ("key" in table)
    return [
        f"{sources[name]} goes before {name} of profile {settings.profile}"
        for name in over
        if sources[name].startswith("TRADE_")
    ]


def _fields(given: str | None) -> tuple[str, ...]:
    if given is None:
        return ()
    names = tuple(name.strip() for name in given.split(","))
    if not all(names):
        raise UsageProblem(
            "--fields takes names with commas between them", "for example: --fields id,name,stats.win_rate_pct"
        )
    return names


def program_of(flags: Mapping[str, Any]) -> str:
    """How the next command begins: what chose the profile and the mock on the command line is kept."""
    program, profile = "trade", flags.get("profile")
    if profile and Profiles.is_name(profile):
        program += f" --profile {'NAME' if looks_secret(profile) else profile}"
    if flags.get("world"):
        return f"{program} --world {flags['world']}"
    return f"{program} --mock" if flags.get("mock") else program


def is_loopback(host: str) -> bool:
    """True for this machine's own addresses."""
    if host == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_user(url: str | None) -> str | None:
    """The host and database of a URL."""
    if url is None:
        return None
    scheme, _, rest = re.split(r"[?#]", url)[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if rest else "…"


def requested_output(argv: list[str]) -> str | None:
    """The last `-o` on a command line that could not be parsed, so that its error has the format it asked for."""
    found = None
    for index, word in enumerate(argv):
        value = None
        if word in ("-o", "--output") and index + 1 < len(argv):
            value = argv[index + 1]
        elif word.startswith("--output="):
            value = word.removeprefix("--output=")
        elif word.startswith("-o") and not word.startswith("--"):
            value = word[2:]
        if value in FORMATS:
            found = value
    return found
