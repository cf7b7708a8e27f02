"""Settings of one run: flags, then the environment, the project's file, the profile, defaults.

The files, `config.toml` with the user's profiles and `.trade.toml` of a project, are read at the end; all else is pure.
`entries` knows what they may say, `files` changes them.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tradesdk_cli.config.entries import (
    ENTRIES,
    FORMATS,
    MOST_RETRIES,
    NAME,
    NAME_RULE,
    NO,
    PROJECT_FILE,
    YES,
    check,
    is_name,
    nearest,
    plain_name,
)
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.redact import is_secret_setting, looks_secret
from tradesdk_cli.text import bare_key, one_line, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, eq=False)
class Layer:
    """The settings of one file or profile, and how it is called: `.trade.toml (/home/you/bot/.trade.toml)`."""

    values: Mapping[str, Any]
    source: str


@dataclass(frozen=True)
class Files:
    """What the settings files say, as it was read: `read_files` makes it.

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
            ConfigProblem: `profiles` is not a table of tables.
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
            ConfigProblem: it is not a name.
        """
        found = self.config.get("profile")
        if found is None:
            return "default" if "default" in self.profiles else None
        if not is_name(found):
            raise ConfigProblem(
                f'profile in {self.config_file} is not a name, such as "work": {NAME_RULE}', "correct that line"
            )
        return str(found)


def unknown_profile(name: str, files: Files) -> ConfigProblem:
    """The error for a profile that is not there."""
    known = sorted(files.profiles)
    if looks_secret(name):
        return ConfigProblem("no profile has this name, which looks like an API key", "save a key: trade login")
    shown = one_line(name, 60)
    if not known:
        return ConfigProblem(
            f"there is no profile {shown}; no profile is saved yet", f"make it: trade login --profile {shown}"
        )
    close = nearest(name, known)
    listed = ", ".join(one_line(other, 60) for other in known)
    hint = f"did you mean {close}?" if close else "trade config list shows them"
    return ConfigProblem(f"there is no profile {shown}; known: {listed}", hint)


DEFAULT = "default"
"""The source of what nobody set."""
_LARGEST = 256 * 1024
"""Bytes of a settings file."""


class Resolver:
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
    source = f"{PROJECT_FILE} ({files.project_file})"
    values, found = check(files.project, source, project=True)
    warnings += found
    return Layer(values, source)


def profile_name(
    flags: Mapping[str, Any], environ: Mapping[str, str], files: Files, project: Layer | None
) -> tuple[str | None, str]:
    """The name of the profile in use, and what named it."""
    if flags.get("profile"):
        return flags["profile"], "flag --profile"
    named = environ.get("TRADE_PROFILE", "").strip()
    if named:
        if not NAME.fullmatch(named):
            raise ConfigProblem(f"TRADE_PROFILE is not a name: {NAME_RULE}", "trade config list shows them")
        return named, "TRADE_PROFILE"
    if project is not None and "profile" in project.values:
        return project.values["profile"], project.source
    default = files.default_profile
    return (default, str(files.config_file)) if default else (None, DEFAULT)


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
    source = f"profile {name} ({files.config_file})"
    values, found = check(table, source, project=False)
    warnings += found
    if "kind" in values:
        values["mock"] = values["kind"] == "mock"
    return Layer(values, source)


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


@dataclass(frozen=True)
class StoredKey:
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
    mock: bool = False
    world: str = "default"
    base_url: str | None = None
    market_url: str | None = None
    """Where market data is bought: by its own setting, or where everything else is."""
    rpc_url: str | None = None
    """The nodes of Base that are asked what was paid: the hosts only, as a path may be a key."""
    api_key: str | None = field(default=None, repr=False)
    """The key of the environment."""
    kept: StoredKey | None = None
    """The key that the profile keeps."""
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
    mock_profile = flags.get("profile") and profile is not None and profile.values.get("kind") == "mock"
    if mock_profile and flags.get("base_url"):
        raise UsageProblem(f"the profile {name} is a mock, and --base-url is not", "leave one of them out")
    picked = Resolver(flags, project, profile)
    home = environ.get("TRADE_HOME")
    settings = Settings(
        output=picked("output", "auto"),
        fields=_fields(flags.get("fields")),
        query=flags.get("query"),
        out=expanded(flags["out"]) if flags.get("out") else None,
        profile=name,
        mock=picked("mock", False, *_mock(flags, environ, profile)),
        world=picked("world", "default"),
        base_url=picked("base_url", None, _env(environ, "TRADE_BASE_URL")),
        market_url=_market_url(picked, environ),
        rpc_url=picked("rpc_url", None, (_hosts(environ.get("TRADE_RPC_URL", "")), "TRADE_RPC_URL")),
        api_key=bare_key(environ.get("TRADE_API_KEY", "")) or None,
        kept=_kept(name, profile),
        timeout=picked("timeout", None),
        retries=picked("retries", None, _env_retries(environ)),
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
    notes = notes_on(settings, flags, environ, profile)
    return replace(settings, notes=tuple(notes), warnings=tuple(warnings))


def _check_flags(flags: Mapping[str, Any]) -> None:
    if flags.get("base_url") and (flags.get("mock") or flags.get("world")):
        raise UsageProblem("--mock and --base-url exclude each other", "leave one of them out")
    if flags.get("base_url") is not None and not flags["base_url"].strip():
        raise UsageProblem("--base-url is empty", "for example: --base-url https://api.example.com")
    world = flags.get("world")
    if world is not None and not NAME.fullmatch(world):
        raise UsageProblem(f"--world takes {NAME_RULE}", "for example: --world test-1")
    if flags.get("profile") is not None and not NAME.fullmatch(flags["profile"]):
        raise UsageProblem(f"--profile takes a name: {NAME_RULE}", "trade config list shows them")
    timeout = flags.get("timeout")
    if timeout is not None and not 0 < timeout <= 3600:
        raise UsageProblem("--timeout takes seconds above 0, at most 3600", "for example: --timeout 10")


def _kept(name: str | None, profile: Layer | None) -> StoredKey | None:
    if name is None or profile is None or "key" not in profile.values:
        return None
    named = tuple(profile.values[field] for field in ("base_url", "market_url") if field in profile.values)
    return StoredKey(name, profile.values["key"], named)


def _key_source(settings: Settings, profile: Layer | None) -> str:
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
        program += f" --profile {'NAME' if looks_secret(flags['profile']) else flags['profile']}"
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
    if flags.get("base_url"):
        above.append((False, "flag --base-url"))
    if flags.get("profile") and profile is not None and profile.values.get("mock"):
        above.append((True, profile.source))
    return [*above, (_env_mock(environ), "TRADE_MOCK")]


def _env_mock(environ: Mapping[str, str]) -> bool | None:
    value = environ.get("TRADE_MOCK", "").strip().lower()
    if not value:
        return None
    if value in YES:
        return True
    if value in NO:
        return False
    raise ConfigProblem("TRADE_MOCK is neither 1 nor 0", "export TRADE_MOCK=1 turns the embedded mock on")


def _market_url(picked: Resolver, environ: Mapping[str, str]) -> str | None:
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


def _env_retries(environ: Mapping[str, str]) -> tuple[int | None, str]:
    value, name = _env(environ, "TRADE_MAX_RETRIES")
    if value is None:
        return None, name
    if value not in ("0", "1", "2", "3", "4", "5"):
        raise ConfigProblem(f"{name} is not {MOST_RETRIES}", f"export {name}=0 sends each request once")
    return int(value), name


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


# The files, read when they are there


def settings_of(flags: Mapping[str, Any], environ: Mapping[str, str], *, new_profile: bool = False) -> Settings:
    """The settings of this run, files included. With `new_profile`, the profile that is named need not be there.

    Raises:
        UsageProblem: flags that contradict each other or have unusable values.
        ConfigProblem: a variable or a file with an unusable value, or a profile that is not there.
    """
    return resolve(flags, environ, read_files(environ), new_profile=new_profile)


def read_files(environ: Mapping[str, str]) -> Files:
    """What the settings files say.

    Raises:
        ConfigProblem: a file cannot be read or is not TOML, or others can write the one with the addresses.
    """
    config_file = _config_file(environ)
    config = _table(config_file, guarded=True) if config_file is not None else None
    project_file, warnings = find_project()
    project = None if project_file is None else _table(project_file)
    return Files(project, project_file, config or {}, config_file, warnings)


def _config_file(environ: Mapping[str, str]) -> Path | None:
    try:
        return config_folder(environ.get("TRADE_HOME")) / "config.toml"
    except ConfigProblem:
        if environ.get("TRADE_HOME"):
            raise
        return None  # no home folder: then there are no files either


def config_folder(home: str | None) -> Path:
    """`TRADE_HOME`, or else the platform's folder for settings. It need not be there.

    Raises:
        ConfigProblem: there is no home folder.
    """
    if home:
        return expanded(home)
    from platformdirs import user_config_path

    return platform_folder(user_config_path)


def find_project() -> tuple[Path | None, tuple[str, ...]]:
    """The project's file, in this folder or the nearest above but not above the home folder, and warnings."""
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return None, ()
    home = os.path.realpath(os.path.expanduser("~"))
    for folder in (here, *here.parents):
        path = folder / PROJECT_FILE
        try:
            found = path.stat()
        except OSError:
            found = None
        if found is not None and stat.S_ISREG(found.st_mode):
            if _foreign(found):
                return None, (f"{path} belongs to somebody else: it is left alone",)
            return path, ()
        if os.path.realpath(folder) == home:
            break
    return None, ()


def _foreign(found: os.stat_result) -> bool:
    return os.name != "nt" and found.st_uid not in (0, os.geteuid())


def _table(path: Path, *, guarded: bool = False) -> dict[str, Any] | None:
    """The file as a table; None when it is not there. `guarded`: only if nobody else can write it."""
    text = read_text(path, guarded=guarded)
    return None if text is None else parse_toml(text, path)


def read_text(path: Path, *, guarded: bool = False) -> str | None:
    """The text of a settings file; None when it is not there.

    Raises:
        ConfigProblem: it cannot be read; or, with `guarded`, others could have written it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigProblem(f"cannot read {path}: {error.strerror}", f"ls -ld {visible(str(path))}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigProblem(f"{path} is not a file", "move it away")
        if found.st_size > _LARGEST:
            raise ConfigProblem(f"{path} is too large for settings ({found.st_size} bytes)", "move it away")
        if guarded and (_foreign(found) or (os.name != "nt" and found.st_mode & 0o002)):
            raise ConfigProblem(
                f"{path} can be written by others, who could send your key elsewhere",
                f"look at its addresses, then: chmod 600 {visible(str(path))}"
                + ("; it belongs to somebody else" if _foreign(found) else ""),
            )
        with open(descriptor, "rb", closefd=False) as stream:
            content = stream.read(_LARGEST)
    finally:
        os.close(descriptor)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigProblem(f"{path} is not text in UTF-8 (line {line})", "save it as UTF-8") from None


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """TOML as a table.

    Raises:
        ConfigProblem: it is none; the line and the column are named.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _broken(text, path, str(error)) from None
    except RecursionError:
        raise ConfigProblem(f"{path} is nested too deeply", "settings are a few lines") from None
    except ValueError:  # of Python's own, for a number of thousands of digits
        raise ConfigProblem(f"{path} has a number or a date that cannot be read", "settings are a few lines") from None


def _broken(text: str, path: Path, reason: str) -> ConfigProblem:
    reason = reason[:1].lower() + reason[1:]
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", reason)
    if found is None:
        return ConfigProblem(f"{path}: {reason}", "it is not TOML")
    lines = text.splitlines() or [""]
    row, column = (int(found[1]), int(found[2])) if found[1] else (len(lines), len(lines[-1]) + 1)
    line = lines[row - 1] if row <= len(lines) else ""
    return ConfigProblem(f"{path}, line {row}, column {column}: {reason[: found.start()]}", _correct(line))


def _correct(line: str) -> str:
    """What to do about a line. Of the line only a name that we know is repeated: all else may be a key or a password
    that somebody put there."""
    name, equals, _ = line.partition("=")
    name = plain_name(name.strip().strip("\"'"))
    if equals and (name in ENTRIES or is_secret_setting(name)):
        return f"correct that line: {name} = …"
    return 'correct that line: a setting is NAME = VALUE with text in "", a profile begins with [profiles.NAME]'
