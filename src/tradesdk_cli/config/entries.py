"""The table of settings: valid values, variable, and the files that may set each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tradesdk.local import Profiles
from tradesdk_cli.choices import FORMATS
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.redact import is_secret_setting
from tradesdk_cli.text import one_line, plural, visible

PROJECT_FILE = ".trade.toml"
_BOOLEANS: dict[str, bool] = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)


def _hosts(urls: str) -> str:
    """The hosts of space-separated URLs, without paths, which may be keys."""
    rests = [url.partition("://")[2] for url in urls.split()]
    return " ".join(re.split(r"[/?#]", rest)[0].rpartition("@")[2] or "…" for rest in rests)


def _is_fleet_url(value: Any) -> bool:
    """A database URL without a password."""
    if not isinstance(value, str) or not value.startswith(("postgresql://", "postgres://")):
        return False
    return ":" not in value.partition("://")[2].rpartition("@")[0] and "password=" not in value


@dataclass(frozen=True, eq=False)
class Entry:
    """One setting.

    Attributes:
        rule: the valid values, in words.
        fits: whether a value is valid.
        read: parses text, of a variable or of `trade config set`.
        variable: the environment variable.
        default: the default value.
    """

    rule: str
    fits: Callable[[Any], bool]
    read: Callable[[str], Any] = str
    variable: str = ""
    default: Any = None

    def of_text(self, text: str) -> Any:
        """The value of a text; None when it is invalid."""
        try:
            value = self.read(text.strip())
        except (ValueError, KeyError):
            return None
        return value if self.fits(value) else None


def _one_of(*choices: str) -> Callable[[Any], bool]:
    return lambda value: value in choices


def _whole(first: int, last: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and first <= value <= last


_A_NAME = f"a name: {Profiles.NAME_RULE}"
"""Valid names of profiles and mock worlds: they become file names."""

ENTRIES: dict[str, Entry] = {
    "profile": Entry(_A_NAME, Profiles.is_name, variable="TRADE_PROFILE"),
    "mock": Entry(
        "true: a project can turn the mock on, not off",
        lambda value: value is True,
        variable="TRADE_MOCK",
        default=False,
    ),
    "world": Entry(_A_NAME, Profiles.is_name, default="default"),
    "base_url": Entry('an address, such as "https://api.example.com"', _is_text, variable="TRADE_BASE_URL"),
    "market_url": Entry('an address, such as "https://market.example.com"', _is_text, variable="TRADE_MARKET_BASE_URL"),
    "rpc_url": Entry("an address", _is_text, _hosts, "TRADE_RPC_URL"),
    "allow_upfront": Entry(
        "true or false: whether a service is paid that takes the money before it does the work",
        lambda value: type(value) is bool,
        lambda text: _BOOLEANS[text.lower()],
        "TRADE_ALLOW_UPFRONT",
        default=False,
    ),
    "fleet_url": Entry(
        '"postgresql://USER@HOST/DATABASE" without a password: PGPASSWORD or ~/.pgpass has that', _is_fleet_url
    ),
    "kind": Entry('"live" or "mock"', _one_of("live", "mock")),
    "key": Entry('"file" or "keyring": where the key is kept, not the key itself', _one_of("file", "keyring")),
    "output": Entry(f"one of {', '.join(FORMATS)}", _one_of(*FORMATS), default="auto"),
    "timeout": Entry(
        "seconds above 0, at most 3600", lambda value: type(value) in (int, float) and 0 < value <= 3600, _number
    ),
    "retries": Entry("a whole number from 0 to 5", _whole(0, 5), _number, "TRADE_MAX_RETRIES"),
    "verbose": Entry("0, 1 or 2", _whole(0, 2), _number, default=0),
}
SHOWN = (
    *("profile", "profiles", "mock", "world", "base_url", "market_url", "rpc_url", "allow_upfront", "fleet_url"),
    *("api_key", "output", "timeout", "retries", "verbose"),
)
"""The settings that `trade config list` shows, in this order."""
IN_PROJECT = ["profile", "mock", "output"]
"""The settings that a project file may set."""
IN_PROFILE = [name for name in ENTRIES if name not in ("profile", "mock", "rpc_url")]
"""The settings that a profile may set."""


def _nearest(name: str, known: Iterable[str]) -> str:
    """The nearest name in words, or all names when none is near."""
    from difflib import get_close_matches

    close = get_close_matches(plain_name(name), list(known), 1, 0.6)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def of_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the environment's variables."""
    found: dict[str, Any] = {}
    for name, entry in ENTRIES.items():
        text = environ.get(entry.variable, "").strip() if entry.variable else ""
        if not text:
            continue
        found[name] = _BOOLEANS.get(text.lower()) if name == "mock" else entry.of_text(text)
        if found[name] is None and name == "mock":
            raise ConfigProblem("TRADE_MOCK is neither 1 nor 0", "export TRADE_MOCK=1 turns the embedded mock on")
        if found[name] is None:
            raise ConfigProblem(f"{entry.variable} is not {entry.rule}", f"correct it, or unset {entry.variable}")
    return found


def check(values: Mapping[str, Any], where: str, *, project: bool) -> dict[str, Any]:
    """The settings of a table. `where` is the table's name for people."""
    names = IN_PROJECT if project else IN_PROFILE
    for name, value in values.items():
        if is_secret_setting(name):
            raise ConfigProblem(
                f"{where} has {visible(name)}: keys and passwords do not belong in settings",
                "remove the line, and save the key with: {login}",
            )
        if project and name in ENTRIES and name not in names:
            raise ConfigProblem(
                f"{where} has {name}: a project sets only {', '.join(names)}",
                'put it into a profile (trade config set), and name that: profile = "NAME"',
            )
        if name not in names:
            meant = "did you mean kind?" if name == "mock" else _nearest(name, names)
            raise ConfigProblem(f"{where} has {one_line(name, 60)}, which is not a setting there", meant)
        if not ENTRIES[name].fits(value):
            hint = "{login} saves a key" if name == "key" else f"there it is {_kind_of(value)}"
            raise ConfigProblem(f"{name} in {where} is not {ENTRIES[name].rule}", hint)
    return dict(values)


def _kind_of(value: Any) -> str:
    """The kind of a value, without repeating it: it may be a key or a password."""
    if isinstance(value, str):
        return f"a text of {plural(len(value), 'characters')}"
    kinds = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or a time")


def parse(name: str, text: str) -> Any:
    """A typed value as it is written to a file."""
    value = ENTRIES[name].of_text(text)
    if value is None:
        rule = ENTRIES[name].rule
        given = _kind_of(text) if name == "fleet_url" else one_line(text, 80)
        raise UsageProblem(f"{name} is {rule}, not {given}", f"{{trade}} config set {name} VALUE")
    return value


def plain_name(name: str) -> str:
    """The name of a setting in files: `base_url` for `base-url`."""
    return name.strip().lower().replace("-", "_")


def shown_name(name: str) -> str:
    """The name of a setting that can be shown."""
    found = plain_name(name)
    if is_secret_setting(found):
        raise UsageProblem("keys are never shown", "{trade} whoami says which one it is, and where it comes from")
    if found not in SHOWN:
        raise UsageProblem(f"there is no setting {one_line(name, 60)}", _nearest(name, SHOWN))
    return found


def settable_name(name: str) -> str:
    """The name of a setting that a profile can have."""
    found = plain_name(name)
    if found == "key" or is_secret_setting(found):
        raise UsageProblem("keys are not kept in settings", "{login} saves one, trade logout removes it")
    names = [known for known in IN_PROFILE if known != "key"]
    if found in names:
        return found
    if found == "mock":
        raise UsageProblem("a profile is a mock by its kind", "{trade} config set kind mock")
    raise UsageProblem(f"there is no setting {one_line(name, 60)}", _nearest(name, [*names, "profile"]))
