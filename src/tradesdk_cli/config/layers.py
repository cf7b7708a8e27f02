"""From files to layers: the project's settings and those of the profile in use, and which value counts most. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tradesdk_cli.config.entries import (
    ENTRIES,
    NAME,
    NAME_RULE,
    PROJECT_FILE,
    Files,
    Layer,
    check,
    nearest,
    unknown_profile,
)
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tradesdk_cli.config.settings import Settings

DEFAULT = "default"
"""The source of what nobody set."""


class Picked:
    """Picks for each setting the value that counts most, and writes down where it came from."""

    def __init__(self, flags: Mapping[str, Any], project: Layer | None, profile: Layer | None) -> None:
        self.sources: dict[str, str] = {}
        self.flags = flags
        self._layers = [layer for layer in (project, profile) if layer is not None]

    def __call__(self, name: str, default: Any, *above: tuple[Any, str]) -> Any:
        """`above`: what counts more than the files, with its source; the flag of that name counts most."""
        given = None if name == "mock" else self.flags.get(name)
        typed = None if name == "verbose" and given == 0 else given  # it counts how often it was given
        candidates = [(typed, f"flag --{name.replace('_', '-')}"), *above]
        for value, source in (*candidates, *self.kept(name)):
            if value is not None:
                self.sources[name] = source
                return value
        self.sources[name] = DEFAULT
        return default

    def kept(self, name: str) -> list[tuple[Any, str]]:
        """What the files say of it."""
        return [(layer.values.get(name), layer.source) for layer in self._layers]


def project_layer(files: Files, warnings: list[str]) -> Layer | None:
    if files.project is None:
        return None
    values, found = check(files.project, f"{PROJECT_FILE} ({files.project_file})", project=True)
    warnings += found
    return Layer(values, f"{PROJECT_FILE} ({files.project_file})")


def profile_name(
    flags: Mapping[str, Any], environ: Mapping[str, str], files: Files, project: Layer | None
) -> tuple[str | None, str]:
    """The name of the profile in use, and what named it."""
    if flags.get("profile"):
        return flags["profile"], "flag --profile"
    named = environ.get("TRADE_PROFILE", "").strip()
    if named:
        if not NAME.fullmatch(named):
            raise ConfigProblem(f"TRADE_PROFILE is no name: {NAME_RULE}", "trade config profiles shows them")
        return named, "TRADE_PROFILE"
    if project is not None and "profile" in project.values:
        return project.values["profile"], project.source
    return (files.default_profile, f"{files.config_file}") if files.default_profile else (None, DEFAULT)


def profile_layer(name: str | None, files: Files, warnings: list[str], *, new: bool) -> Layer | None:
    for other in files.config:
        if other not in ("profile", "profiles"):
            warnings.append(
                f"{files.config_file} has {one_line(other, 60)} outside of a profile{_way_out(other, files)}"
            )
    nameless = -len(files.profiles) + len(files.config.get("profiles", ()))
    if nameless:
        some = "a profile" if nameless == 1 else f"{nameless} profiles"
        warnings.append(f"{files.config_file} has {some} with no usable name, left alone: names are {NAME_RULE}")
    if name is None:
        return None
    table = files.profiles.get(name)
    if table is None:
        if new:
            return None
        raise unknown_profile(name, files)
    values, found = check(table, f"profile {name} ({files.config_file})", project=False)
    warnings += found
    if "kind" in values:
        values["mock"] = values["kind"] == "mock"
    return Layer(values, f"profile {name} ({files.config_file})")


def _way_out(name: str, files: Files) -> str:
    """What to do with `name` at the top of the file, where two names belong: it may be one of them."""
    meant = None if name in ENTRIES else nearest(name, ("profile", "profiles"))
    if meant is None:
        return ": it belongs below [profiles.NAME]"
    return f"; did you mean {'profiles' if isinstance(files.config[name], dict) else 'profile'}?"


def warnings_on(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Where a project turns the mock on for a command line that meant a service: programs are told as well."""
    source = settings.sources["mock"]
    named = [name for name in ("TRADE_BASE_URL", "TRADE_MARKET_BASE_URL") if environ.get(name)]
    if not (settings.mock and source.startswith(PROJECT_FILE) and named):
        return []
    verb = "is" if len(named) == 1 else "are"
    return [f"{' and '.join(named)} {verb} left alone: {source} turns the mock on (--no-mock turns it off)"]


def notes_on(
    settings: Settings, flags: Mapping[str, Any], environ: Mapping[str, str], profile: Layer | None
) -> list[str]:
    """Where a variable and a profile do not say the same, and somebody may expect the other one."""
    if profile is None:
        return []
    named = f"profile {settings.profile}"
    notes: list[str] = []
    if settings.mock and settings.sources["mock"] == profile.source:
        if environ.get("TRADE_BASE_URL"):
            notes.append(f"TRADE_BASE_URL is left alone: {named} is a mock")
        return notes
    if not flags.get("profile"):
        return notes
    if settings.mock:
        if settings.sources["mock"] == "TRADE_MOCK" and not profile.values.get("mock"):
            notes.append(f"TRADE_MOCK goes before {named}: this is the mock")
        return notes
    for name, variable in (("base_url", "TRADE_BASE_URL"), ("market_url", "TRADE_MARKET_BASE_URL")):
        if name in profile.values and settings.sources[name] == variable:
            notes.append(f"{variable} goes before the address of {named}")
    if settings.kept is not None and settings.sources["api_key"] == "TRADE_API_KEY":
        notes.append(f"TRADE_API_KEY goes before the key of {named}")
    return notes
