"""Settings of one run: flags, then the environment, the project's file, the profile, defaults.

Pure: nothing is read from disk. `profiles` reads the files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from tradesdk_cli.config.entries import COLORS, FORMATS, NAME, NAME_RULE, Files
from tradesdk_cli.config.layers import (
    DEFAULT,
    Picked,
    notes_on,
    profile_layer,
    profile_name,
    project_layer,
    warnings_on,
)
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tradesdk_cli.config.entries import Layer

__all__ = [
    "COLORS",
    "FORMATS",
    "Settings",
    "expanded",
    "is_loopback",
    "platform_folder",
    "program_of",
    "requested_output",
    "resolve",
]

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class Kept:
    """A key that a profile keeps.

    Attributes:
        profile: its name.
        place: `file` or `keyring`.
        addresses: where the key may be sent: what the profile itself names.
    """

    profile: str
    place: str
    addresses: tuple[str, ...]


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
    profile: str | None = None
    """The profile in use; None when there is none."""
    color: str = "auto"
    mock: bool = False
    world: str = "default"
    base_url: str | None = None
    market_url: str | None = None
    """Where market data is bought: by its own setting, or where everything else is."""
    rpc_url: str | None = None
    """The nodes of Base that are asked what was paid: the hosts only, as a path may be a key."""
    api_key_stdin: bool = False
    api_key: str | None = field(default=None, repr=False)
    """The key of the environment."""
    kept: Kept | None = None
    """The key that the profile keeps."""
    timeout: float | None = None
    retry: bool = True
    verbose: int = 0
    debug: bool = False
    curl: bool = False
    program: str = "trade"
    """What begins a command that goes on in the same place, for hints."""
    home: Path | None = None
    """`TRADE_HOME`; None means the platform's own folders."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where each setting came from: `flag --output`, `TRADE_BASE_URL`, `.trade.toml (path)`, `profile work (path)`,
    `default`. Of the key (`api_key`) as well, which is not read for that."""
    files: Files = field(default_factory=Files, compare=False, repr=False)
    """What the settings files say."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What is wrong with the files, but stops nothing."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What a person should know who expects something else."""

    def data_folder(self) -> Path:
        """Where state is kept between commands.

        Raises:
            ConfigProblem: there is no home folder.
        """
        if self.home is not None:
            return self.home
        from platformdirs import user_data_path

        return platform_folder(user_data_path)

    def config_folder(self) -> Path:
        """Where `config.toml` and the kept keys are.

        Raises:
            ConfigProblem: there is no home folder.
        """
        if self.files.config_file is None:
            raise ConfigProblem("there is no home folder for settings", "set HOME, or TRADE_HOME to a folder")
        return self.files.config_file.parent


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
    warnings = list(files.warnings)
    project = project_layer(files, warnings)
    name, named_by = profile_name(flags, environ, files, project)
    profile = profile_layer(name, files, warnings, new=new_profile)
    if flags.get("profile") and profile is not None and profile.values.get("kind") == "mock":
        for option in ("base_url", "market_url"):
            if flags.get(option):
                raise UsageProblem(
                    f"the profile {name} is a mock, and --{option.replace('_', '-')} is not", "leave one of them out"
                )
    picked = Picked(flags, project, profile)
    home = environ.get("TRADE_HOME")
    settings = Settings(
        output=picked("output", "auto"),
        fields=_fields(flags.get("fields")),
        query=flags.get("query"),
        out=expanded(flags["out"]) if flags.get("out") else None,
        profile=name,
        color=picked("color", "auto", _env_color(environ)),
        mock=picked("mock", False, *_mock(flags, environ, profile)),
        world=picked("world", "default"),
        base_url=picked("base_url", None, _env(environ, "TRADE_BASE_URL")),
        market_url=_market_url(picked, environ),
        rpc_url=picked("rpc_url", None, (_hosts(environ.get("TRADE_RPC_URL", "")), "TRADE_RPC_URL")),
        api_key_stdin=bool(flags.get("api_key_stdin")),
        api_key=environ.get("TRADE_API_KEY") or None,
        kept=_kept(name, profile),
        timeout=picked("timeout", None),
        retry=picked("retry", True, (False if flags.get("no_retry") else None, "flag --no-retry")),
        verbose=picked("verbose", 0),
        debug=bool(flags.get("debug")),
        curl=bool(flags.get("curl")),
        program=program_of(flags),
        home=expanded(home) if home else None,
        sources=picked.sources,
        files=files,
    )
    picked.sources["profile"] = named_by
    picked.sources["api_key"] = _key_source(settings, profile)
    warnings += warnings_on(settings, environ)
    return replace(settings, notes=tuple(notes_on(settings, flags, environ, profile)), warnings=tuple(warnings))


def _check_flags(flags: Mapping[str, Any]) -> None:
    for name, option in (("base_url", "--base-url"), ("market_url", "--market-url")):
        if flags.get(name) and (flags.get("mock") or flags.get("world")):
            raise UsageProblem(f"--mock and {option} exclude each other", "leave one of them out")
        if flags.get(name) is not None and not flags[name].strip():
            raise UsageProblem(f"{option} is empty", f"for example: {option} https://api.example.com")
    world = flags.get("world")
    if world is not None and not NAME.fullmatch(world):
        raise UsageProblem(f"--world takes {NAME_RULE}", "for example: --world test-1")
    if flags.get("profile") is not None and not NAME.fullmatch(flags["profile"]):
        raise UsageProblem(f"--profile takes a name: {NAME_RULE}", "trade config profiles shows them")
    timeout = flags.get("timeout")
    if timeout is not None and not 0 < timeout <= 3600:
        raise UsageProblem("--timeout takes seconds above 0, at most 3600", "for example: --timeout 10")


def _kept(name: str | None, profile: Layer | None) -> Kept | None:
    if name is None or profile is None or "key" not in profile.values:
        return None
    named = tuple(profile.values[field] for field in ("base_url", "market_url") if field in profile.values)
    return Kept(name, profile.values["key"], named)


def _key_source(settings: Settings, profile: Layer | None) -> str:
    if settings.api_key_stdin:
        return "flag --api-key-stdin"
    if settings.api_key:
        return "TRADE_API_KEY"
    if settings.kept is None:
        return DEFAULT
    place = settings.kept.place
    if place == "file" and settings.files.config_file is not None:
        place = str(settings.files.config_file.parent / "keys" / settings.kept.profile)
    return f"profile {settings.kept.profile} ({place})"


def platform_folder(find: Callable[..., Path]) -> Path:
    """The folder for `trade` that a function of platformdirs finds.

    Raises:
        ConfigProblem: there is no home folder.
    """
    try:
        folder = find("trade", appauthor=False)
    except RuntimeError:
        folder = Path("~")
    if not folder.is_absolute():  # ~ stands for nothing
        raise ConfigProblem("there is no home folder", "set HOME, or TRADE_HOME to a folder")
    return folder


def expanded(path: str) -> Path:
    """A path that was typed, with `~` as the home folder.

    Raises:
        ConfigProblem: there is no home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigProblem(f"there is no home folder for {one_line(path, 200)}", "write the path without ~") from None


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
    program = "trade"
    if isinstance(flags.get("profile"), str) and NAME.fullmatch(flags["profile"]):
        program += f" --profile {flags['profile']}"
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


def _mock(flags: Mapping[str, Any], environ: Mapping[str, str], profile: Layer | None) -> list[tuple[Any, str]]:
    """What counts more than the files. A profile of kind mock that a flag names is as good as --mock."""
    above: list[tuple[Any, str]] = []
    if flags.get("world") is not None:
        above.append((True, "flag --world"))
    if flags.get("mock") is not None:
        above.append((bool(flags["mock"]), "flag --mock" if flags["mock"] else "flag --no-mock"))
    above += [(False, f"flag --{name.replace('_', '-')}") for name in ("base_url", "market_url") if flags.get(name)]
    if flags.get("profile") and profile is not None and profile.values.get("mock"):
        above.append((True, profile.source))
    return [*above, (_env_mock(environ), "TRADE_MOCK")]


def _env_mock(environ: Mapping[str, str]) -> bool | None:
    value = environ.get("TRADE_MOCK", "").strip().lower()
    if not value:
        return None
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ConfigProblem("TRADE_MOCK is neither 1 nor 0", "export TRADE_MOCK=1 turns the embedded mock on")


def _market_url(picked: Picked, environ: Mapping[str, str]) -> str | None:
    """Whoever says where the service is moves the market data too, wherever somebody who counts less says it is."""
    found: str | None = picked(
        "market_url",
        None,
        (picked.flags.get("base_url"), "flag --base-url"),
        _env(environ, "TRADE_MARKET_BASE_URL"),
        _env(environ, "TRADE_BASE_URL"),
    )
    return found if found is not None else picked("market_url", None, *picked.kept("base_url"))


def _hosts(urls: str) -> str | None:
    """The hosts of URLs with spaces between them; None without any."""
    rests = [url.partition("://")[2] for url in urls.split()]
    return " ".join(re.split(r"[/?#]", rest)[0].rpartition("@")[2] or "…" for rest in rests) or None


def _env(environ: Mapping[str, str], name: str) -> tuple[str | None, str]:
    return environ.get(name, "").strip() or None, name


def _env_color(environ: Mapping[str, str]) -> tuple[str | None, str]:
    # https://no-color.org and https://force-color.org: any value that is not empty counts.
    if environ.get("NO_COLOR"):
        return "never", "NO_COLOR"
    return ("always", "FORCE_COLOR") if environ.get("FORCE_COLOR") else (None, "FORCE_COLOR")


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
