"""Profiles: a URL, and where its key is saved. `trade login` writes them to `config.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from .files import SettingsFile, invalid_profile

CONFIG_FILE = "config.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_LIKE_A_KEY = re.compile(r"(?:sk|pk|mocksk|bearer)[_ -].*|(?=.*\d).{20,}", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Profiles:
    """The content of `config.toml`.

    Attributes:
        config: its table; empty if there is no file.
        file: the file, even if it is missing; None if there is no home folder.
    """

    NAME_RULE: ClassVar[str] = "letters, digits, - and _ (at most 40)"

    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    file: Path | None = None

    @staticmethod
    def is_name(value: object) -> bool:
        """Whether it can be the name of a profile, which is also a file name."""
        return isinstance(value, str) and _NAME.fullmatch(value) is not None

    @classmethod
    def read(cls, folder: Path) -> Profiles:
        """Read the file in this folder.

        Raises:
            ConfigError: it cannot be read or is not TOML, or others can write it.
        """
        file = folder / CONFIG_FILE
        return cls(SettingsFile.read(file, forbidden=0o002).table, file)

    @property
    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """The profiles by name.

        Raises:
            ConfigError: `profiles` is not a table of tables, or a name cannot be a file name.
        """
        found = self.config.get("profiles", {})
        if not isinstance(found, dict) or not all(isinstance(table, dict) for table in found.values()):
            raise invalid_profile(
                f"profiles in {self.file} is not a table of tables", "a profile begins with [profiles.NAME]"
            )
        if not all(map(self.is_name, found)):  # files have these names
            raise invalid_profile(f"{self.file} has a profile with no usable name", f"names are {self.NAME_RULE}")
        return found

    @property
    def default(self) -> str | None:
        """The profile that `trade` uses by default.

        Raises:
            ConfigError: it is not a name.
        """
        found = self.config.get("profile")
        if found is None:
            return "default" if "default" in self.tables else None
        if not self.is_name(found):
            raise invalid_profile(
                f'profile in {self.file} is not a name, such as "work": {self.NAME_RULE}', "correct that line"
            )
        return str(found)

    def named(self, name: str) -> Mapping[str, Any]:
        """A profile's table.

        Raises:
            ConfigError: there is no profile of this name; the error lists the existing ones.
        """
        known = sorted(self.tables)
        if self.is_name(name) and name in known:
            return self.tables[name]
        if not isinstance(name, str) or _LIKE_A_KEY.fullmatch(name):  # it may be a key, so it is not shown
            raise invalid_profile(
                "no profile has this name, which looks like an API key", "save the key: trade login --profile NAME"
            )
        if not self.is_name(name):
            raise invalid_profile(f"a profile's name is {self.NAME_RULE}", "save one: trade login --profile work")
        if not known:
            raise invalid_profile(
                f"there is no profile {name}; no profile is saved yet", f"save it: trade login --profile {name}"
            )
        from difflib import get_close_matches

        close = get_close_matches(name, known, 1, 0.6)
        hint = f"did you mean {close[0]}?" if close else f"name one of them, or save it: trade login --profile {name}"
        raise invalid_profile(f"there is no profile {name}; saved: {', '.join(known)}", hint)
