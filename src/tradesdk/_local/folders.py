"""The folders with the files of one person."""

from __future__ import annotations

from pathlib import Path

from .._http.parts import loading
from .._values.text import is_url, printable
from ..errors import ConfigError


def data_folder(home: str | None, of: str = "data") -> Path:
    """`home` (the value of TRADE_HOME), else the platform's data folder of `trade`. It may not exist yet.

    Raises:
        ConfigError: there is no home folder; `of` says for which data it is needed.
    """
    return _folder(home, "user_data_path", of)


def config_folder(home: str | None) -> Path:
    """`home` (the value of TRADE_HOME), else the platform's settings folder of `trade`. It may not exist yet.

    Raises:
        ConfigError: there is no home folder.
    """
    return _folder(home, "user_config_path", "settings")


@loading()
def _folder(home: str | None, usual: str, of: str) -> Path:
    if home and is_url(home):  # it may contain a password
        from .._http.arguments import NO_FILE

        raise ConfigError("TRADE_HOME must be a folder, not a URL", hint=NO_FILE)
    try:
        if home:
            return Path(home).expanduser()
        import platformdirs

        folder: Path = getattr(platformdirs, usual)("trade", appauthor=False)
        if folder.is_absolute():  # else ~ was not expanded
            return folder
    except RuntimeError:
        pass
    raise ConfigError(
        f"there is no home folder for {printable(home, 200) if home else of}",
        hint="set HOME, or TRADE_HOME to a folder, without ~",
    )
