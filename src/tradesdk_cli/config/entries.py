"""What settings files may say: every setting, what fits it, and what is wrong with what does not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tradesdk_cli.choices import Format
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.redact import is_secret_setting
from tradesdk_cli.text import counted, one_line, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


FORMATS = tuple(Format)
KINDS = ("live", "mock")
KEY_PLACES = ("file", "keyring")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""Names of profiles and of mock worlds: they become names of files."""
NAME_RULE = "letters, digits, - and _ (at most 40)"
PROJECT_FILE = ".trade.toml"
MOST_RETRIES = "a whole number from 0 to 5"
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], bool]:
    return lambda value: value in choices


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 3600


def _is_retries(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 5


def _is_true(value: Any) -> bool:
    return value is True


def is_name(value: Any) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_level(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2


@dataclass(frozen=True, eq=False)
class Entry:
    """One setting: what fits, in a check and in words, and in which files it may stand."""

    fits: Callable[[Any], bool]
    rule: str
    profile: bool = True
    project: bool = False


ENTRIES: dict[str, Entry] = {
    "base_url": Entry(_is_text, 'an address, such as "https://api.example.com"'),
    "market_url": Entry(_is_text, 'an address, such as "https://market.example.com"'),
    "kind": Entry(_one_of(KINDS), '"live" or "mock"'),
    "key": Entry(_one_of(KEY_PLACES), '"file" or "keyring": where the key is kept, not the key itself'),
    "profile": Entry(is_name, f"a name: {NAME_RULE}", profile=False, project=True),
    "mock": Entry(_is_true, "true: a project can turn the mock on, not off", profile=False, project=True),
    "world": Entry(is_name, f"a name: {NAME_RULE}"),
    "output": Entry(_one_of(FORMATS), f"one of {', '.join(FORMATS)}", project=True),
    "timeout": Entry(_is_seconds, "seconds above 0, at most 3600"),
    "retries": Entry(_is_retries, MOST_RETRIES),
    "verbose": Entry(_is_level, "0, 1 or 2"),
}
"""Every setting that a file may have."""


SHOWN = (
    "profile",
    "profiles",
    "mock",
    "world",
    "base_url",
    "market_url",
    "rpc_url",
    "api_key",
    "output",
    "timeout",
    "retries",
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


def check(values: Mapping[str, Any], where: str, *, project: bool) -> tuple[dict[str, Any], list[str]]:
    """What of a table is known, and warnings about the rest. `where` is how the table is called.

    Raises:
        ConfigProblem: a value of the wrong type, a secret, or, in a project file, an address.
    """
    known: dict[str, Any] = {}
    warnings = []
    names = names_in(project=project)
    for name, value in values.items():
        if is_secret_setting(name):
            raise ConfigProblem(
                f"{where} has {visible(name)}: keys and passwords do not belong in settings",
                "remove the line, and keep the key with: {login}",
            )
        if project and name in ENTRIES and not ENTRIES[name].project:
            raise ConfigProblem(
                f"{where} has {name}: a project says only {', '.join(names)}",
                'put it into a profile (trade config set), and name that: profile = "NAME"',
            )
        if name not in names:
            warnings.append(_unknown(name, where, names))
        elif not ENTRIES[name].fits(value):
            hint = "{login} keeps a key" if name == "key" else f"there it is {_kind_of(value)}"
            raise ConfigProblem(f"{name} in {where} is not {ENTRIES[name].rule}", hint)
        else:
            known[name] = value
    return known, warnings


def _unknown(name: str, where: str, names: list[str]) -> str:
    close = nearest(name, names)
    if close is None and name == "mock":
        close = "kind"
    meant = f"; did you mean {close}?" if close else f"; there are {', '.join(names)}"
    return f"{where} has {one_line(name, 60)}, which is not a setting there{meant}"


def _kind_of(value: Any) -> str:
    """What a value is, without repeating it: somebody may have put a key or a password there."""
    if isinstance(value, str):
        return f"a text of {counted(len(value), 'characters')}"
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
    if entry.fits in (_is_seconds, _is_level, _is_retries):
        try:
            value = int(value) if value.isdigit() else float(value)
        except ValueError:
            value = None
    if not entry.fits(value):
        raise UsageProblem(f"{name} is {entry.rule}, not {one_line(text, 80)}", f"{{trade}} config set {name} VALUE")
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
    if is_secret_setting(found):
        raise UsageProblem("keys are never shown", "{trade} whoami says which one it is, and where it comes from")
    if found not in SHOWN:
        close = nearest(found, SHOWN)
        hint = f"did you mean {close}?" if close else f"there are {', '.join(SHOWN)}"
        raise UsageProblem(f"there is no setting {one_line(name, 60)}", hint)
    return found


def settable_name(name: str) -> str:
    """The name of a setting that a profile can have.

    Raises:
        UsageProblem: it can not; the hint says what to do.
    """
    found = plain_name(name)
    if found == "key" or is_secret_setting(found):
        raise UsageProblem("keys are not kept in settings", "{login} keeps one, trade logout forgets it")
    names = [known for known in names_in(project=False) if known != "key"]
    if found in names:
        return found
    if found == "mock":
        raise UsageProblem("a profile is a mock by its kind", "{trade} config set kind mock")
    if found in ENTRIES:
        raise UsageProblem(f"{found} belongs to a project", f"write it into the project's {PROJECT_FILE}")
    close = nearest(found, names)
    hint = f"did you mean {close}?" if close else f"there are {', '.join(names)}"
    raise UsageProblem(f"there is no setting {one_line(name, 60)}", hint)
