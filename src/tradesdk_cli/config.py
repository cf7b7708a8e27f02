"""Settings of one run: flags, then the environment, then defaults. Pure: nothing is read from disk."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tradesdk_cli.errors import ConfigProblem, UsageProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FORMATS = ("auto", "table", "json", "ndjson")
COLORS = ("auto", "always", "never")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
_WORLD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True)
class Settings:
    """Everything a command needs to know about how it was called."""

    output: str = "auto"
    color: str = "auto"
    mock: bool = False
    world: str = "default"
    base_url: str | None = None
    market_url: str | None = None
    """Where market data is bought; None: where everything else is."""
    api_key_stdin: bool = False
    api_key: str | None = field(default=None, repr=False)
    timeout: float | None = None
    retry: bool = True
    verbose: int = 0
    program: str = "trade"
    """What begins a command that goes on in the same place, for hints."""
    home: Path | None = None
    """`TRADE_HOME`; None means the platform's own folders."""

    def data_folder(self) -> Path:
        """Where state is kept between commands."""
        if self.home is not None:
            return self.home
        from platformdirs import user_data_path

        return user_data_path("trade", appauthor=False)


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """The settings that `flags` (absent or None means not given) and `environ` amount to.

    Raises:
        UsageProblem: flags that contradict each other or have unusable values.
        ConfigProblem: a variable with an unusable value.
    """
    for name, option in (("base_url", "--base-url"), ("market_url", "--market-url")):
        if flags.get(name) and (flags.get("mock") or flags.get("world")):
            raise UsageProblem(f"--mock and {option} exclude each other", "leave one of them out")
    world = flags.get("world")
    if world is not None and not _WORLD.fullmatch(world):
        raise UsageProblem("--world takes letters, digits, - and _ (at most 40)", "for example: --world test-1")
    timeout = flags.get("timeout")
    if timeout is not None and not 0 < timeout <= 3600:
        raise UsageProblem("--timeout takes seconds above 0, at most 3600", "for example: --timeout 10")
    home = environ.get("TRADE_HOME")
    return Settings(
        output=flags.get("output") or "auto",
        color=flags.get("color") or _env_color(environ),
        mock=_mock(flags, environ),
        world=world or "default",
        base_url=flags.get("base_url"),
        market_url=_market_url(flags, environ),
        api_key_stdin=bool(flags.get("api_key_stdin")),
        api_key=environ.get("TRADE_API_KEY") or None,
        timeout=timeout,
        retry=not flags.get("no_retry"),
        verbose=flags.get("verbose") or 0,
        program=program_of(flags),
        home=Path(home).expanduser() if home else None,
    )


def program_of(flags: Mapping[str, Any]) -> str:
    """How the next command begins: what chose the mock on the command line is kept."""
    if flags.get("world"):
        return f"trade --world {flags['world']}"
    return "trade --mock" if flags.get("mock") else "trade"


def is_loopback(host: str) -> bool:
    """True for this machine's own addresses."""
    if host == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _mock(flags: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    if flags.get("world") is not None:
        return True
    if flags.get("mock") is not None:
        return bool(flags["mock"])
    if flags.get("base_url") or flags.get("market_url"):
        return False
    value = environ.get("TRADE_MOCK", "").strip().lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ConfigProblem("TRADE_MOCK is neither 1 nor 0", "export TRADE_MOCK=1 turns the embedded mock on")


def _market_url(flags: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """A flag counts more than the environment, so --base-url moves the market data too, wherever that says it is."""
    given = flags.get("market_url") or flags.get("base_url")
    return (
        given or environ.get("TRADE_MARKET_BASE_URL", "").strip() or environ.get("TRADE_BASE_URL", "").strip() or None
    )


def _env_color(environ: Mapping[str, str]) -> str:
    # https://no-color.org and https://force-color.org: any value that is not empty counts.
    if environ.get("NO_COLOR"):
        return "never"
    if environ.get("FORCE_COLOR"):
        return "always"
    return "auto"


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
