"""What may stand in a settings file: the names, their types, and what is wrong with a value. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

FORMATS = ("auto", "table", "json", "ndjson", "csv", "tsv", "yaml", "md")
COLORS = ("auto", "always", "never")
KINDS = ("live", "mock")
KEY_PLACES = ("file", "keyring")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""Names of profiles and of mock worlds: they become names of files."""
NAME_RULE = "letters, digits, - and _ (at most 40)"
PROJECT_FILE = ".trade.toml"
_SECRET = ("api_key", "apikey", "key_value", "token", "secret", "wallet_key", "private_key", "password")
_KEY = re.compile(r"(?:sk|pk|mocksk|bearer)[_ -]", re.IGNORECASE)
_LONG_NAME = 20
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, eq=False)
class Layer:
    """The settings of one file or profile, and how it is called: `.trade.toml (/home/you/bot/.trade.toml)`."""

    values: Mapping[str, Any]
    source: str


@dataclass(frozen=True)
class Files:
    """What the settings files say, as it was read: `read_files` of `profiles` makes it.

    Attributes:
        project: the table of `.trade.toml`; None when there is none.
        project_file: where it is.
        config: the table of `config.toml`; empty when there is none.
        config_file: where it is, or would be; None where there is no home folder.
        warnings: what was left alone, and why.
    """

    project: Mapping[str, Any] | None = None
    project_file: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    config_file: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def profiles(self) -> Mapping[str, Any]:
        """The tables of the profiles, by name. Those whose names are none are left out: files are called after them.

        Raises:
            ConfigProblem: `profiles` is no table of tables.
        """
        found = self.config.get("profiles", {})
        if not isinstance(found, dict) or not all(isinstance(table, dict) for table in found.values()):
            raise ConfigProblem(
                f"profiles in {self.config_file} is not a table of tables", "a profile begins with [profiles.NAME]"
            )
        return {name: table for name, table in found.items() if NAME.fullmatch(name)}

    @property
    def default_profile(self) -> str | None:
        """The profile that counts when none is named.

        Raises:
            ConfigProblem: it is no name.
        """
        found = self.config.get("profile")
        if found is None:
            return "default" if "default" in self.profiles else None
        if not _is_name(found):
            raise ConfigProblem(
                f'profile in {self.config_file} is not a name, such as "work": {NAME_RULE}', "correct that line"
            )
        return str(found)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], bool]:
    return lambda value: value in choices


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 3600


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_true(value: Any) -> bool:
    return value is True


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_level(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2


@dataclass(frozen=True, eq=False)
class Entry:
    """One setting: what fits, in a check and in words, and in which files it may stand."""

    fits: Callable[[Any], bool]
    rule: str
    profile: bool = True
    project: bool = True


ENTRIES: dict[str, Entry] = {
    "base_url": Entry(_is_text, 'an address, such as "https://api.example.com"', project=False),
    "market_url": Entry(_is_text, 'an address, such as "https://market.example.com"', project=False),
    "kind": Entry(_one_of(KINDS), '"live" or "mock"', project=False),
    "key": Entry(_one_of(KEY_PLACES), '"file" or "keyring": where the key is kept, not the key itself', project=False),
    "profile": Entry(_is_name, f"a name: {NAME_RULE}", profile=False),
    "mock": Entry(_is_true, "true: a project can turn the mock on, not off", profile=False),
    "world": Entry(_is_name, f"a name: {NAME_RULE}"),
    "output": Entry(_one_of(FORMATS), f"one of {', '.join(FORMATS)}"),
    "color": Entry(_one_of(COLORS), f"one of {', '.join(COLORS)}"),
    "timeout": Entry(_is_seconds, "seconds above 0, at most 3600"),
    "retry": Entry(_is_bool, "true or false"),
    "verbose": Entry(_is_level, "0, 1 or 2"),
}
"""Every setting that a file may have."""


SHOWN = (
    "profile",
    "mock",
    "world",
    "base_url",
    "market_url",
    "rpc_url",
    "api_key",
    "output",
    "color",
    "timeout",
    "retry",
    "verbose",
)
"""What `trade config list` shows, in this order."""


def names_in(*, project: bool) -> list[str]:
    """The settings that a project file, or a profile, may have."""
    return [name for name, entry in ENTRIES.items() if (entry.project if project else entry.profile)]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """What was probably meant."""
    from difflib import get_close_matches

    found = get_close_matches(name.lower().replace("-", "_"), list(known), 1, 0.6)
    return found[0] if found else None


def is_secret(name: str) -> bool:
    """Whether a setting of this name would be a key or a password."""
    return name.lower().replace("-", "_") in _SECRET


def looks_secret(name: str) -> bool:
    """Whether what stands where a name belongs may be a key: it is not repeated then."""
    return _KEY.match(name) is not None or (len(name) >= _LONG_NAME and any(letter.isdigit() for letter in name))


def check(values: Mapping[str, Any], where: str, *, project: bool) -> tuple[dict[str, Any], list[str]]:
    """What of a table is known, and warnings about the rest. `where` is how the table is called.

    Raises:
        ConfigProblem: a value of the wrong type, a secret, or, in a project file, an address.
    """
    known: dict[str, Any] = {}
    warnings = []
    names = names_in(project=project)
    for name, value in values.items():
        if is_secret(name):
            raise ConfigProblem(
                f"{where} has {visible(name)}: keys and passwords do not belong into settings",
                "remove the line, and keep the key with: trade login",
            )
        if project and name in ENTRIES and not ENTRIES[name].project:
            raise ConfigProblem(
                f"{where} has {name}: a project may not say where requests and keys go",
                'put it into a profile (trade config set), and name that: profile = "NAME"',
            )
        if name not in names:
            warnings.append(_unknown(name, where, names))
        elif not ENTRIES[name].fits(value):
            hint = "trade login keeps a key" if name == "key" else f"there it is {_kind_of(value)}"
            raise ConfigProblem(f"{name} in {where} is not {ENTRIES[name].rule}", hint)
        else:
            known[name] = value
    return known, warnings


def _unknown(name: str, where: str, names: list[str]) -> str:
    close = nearest(name, names)
    if close is None and name == "mock":
        close = "kind"
    meant = f"; did you mean {close}?" if close else f"; there are {', '.join(names)}"
    return f"{where} has {one_line(name, 60)}, which is no setting there{meant}"


def _kind_of(value: Any) -> str:
    """What a value is, without repeating it: somebody may have put a key or a password there."""
    if isinstance(value, str):
        return f"a text of {len(value)} character{'' if len(value) == 1 else 's'}"
    if isinstance(value, bool):
        return "true" if value else "false"
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        ((int, float), "a number"),
        (list, "a list"),
        (dict, "a table"),
    )
    return next((told for types, told in kinds if isinstance(value, types)), "a date or a time")


def parse(name: str, text: str) -> Any:
    """A value that was typed, as a file has it.

    Raises:
        UsageProblem: it does not fit.
    """
    entry = ENTRIES[name]
    value: Any = text.strip()
    lowered = value.lower()
    if entry.fits in (_is_bool, _is_true):
        value = True if lowered in _YES else False if lowered in _NO else value
    elif entry.fits in (_is_seconds, _is_level):
        try:
            value = int(value) if value.isdigit() else float(value)
        except ValueError:
            value = None
    if not entry.fits(value):
        raise UsageProblem(f"{name} is {entry.rule}, not {one_line(text, 80)}", f"trade config set {name} VALUE")
    return value


def plain_name(name: str) -> str:
    """The name of a setting as files have it: `base-url` is `base_url`."""
    return name.strip().lower().replace("-", "_")


def shown_name(name: str) -> str:
    """The name of a setting that can be shown.

    Raises:
        UsageProblem: there is none of that name.
    """
    found = plain_name(name)
    if is_secret(found):
        raise UsageProblem("keys are never shown", "trade whoami says which one it is, and where it comes from")
    if found not in SHOWN:
        close = nearest(found, SHOWN)
        hint = f"did you mean {close}?" if close else f"there are {', '.join(SHOWN)}"
        raise UsageProblem(f"there is no setting {one_line(name, 60)}", hint)
    return found


def settable_name(name: str, *, project: bool) -> str:
    """The name of a setting that the profile, or the project, can have.

    Raises:
        UsageProblem: it can not; the hint says what to do.
    """
    found = plain_name(name)
    if found == "key" or is_secret(found):
        raise UsageProblem("keys do not stand in settings", "trade login keeps one, trade logout forgets it")
    names = [known for known in names_in(project=project) if known != "key"]
    if found in names:
        return found
    if found == "mock":
        raise UsageProblem("a profile is a mock by its kind", "trade config set kind mock")
    if found in ENTRIES:
        whose = "a project may not say where requests and keys go" if project else f"{found} belongs to a project"
        raise UsageProblem(whose, "leave --project out" if project else "add --project")
    close = nearest(found, names)
    hint = f"did you mean {close}?" if close else f"there are {', '.join(names)}"
    raise UsageProblem(f"there is no setting {one_line(name, 60)}", hint)


def unknown_profile(name: str, files: Files) -> ConfigProblem:
    """The error for a profile that is not there."""
    known = sorted(files.profiles)
    if looks_secret(name):
        return ConfigProblem("there is no profile of that name, which looks like a key", "trade login keeps a key")
    shown = one_line(name, 60)
    if not known:
        return ConfigProblem(f"there is no profile {shown}, and no other", f"make it: trade login --profile {shown}")
    close = nearest(name, known)
    listed = ", ".join(one_line(other, 60) for other in known)
    hint = f"did you mean {close}?" if close else "trade config profiles shows them"
    return ConfigProblem(f"there is no profile {shown}; known: {listed}", hint)
