"""Where files of a user live that nobody named a place for."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ConfigError


def data_folder(of: str) -> Path:
    """`TRADE_HOME`, or else the platform's folder for data of `trade`. It need not be there.

    Raises:
        ConfigError: there is no home folder for `of`.
    """
    home = os.environ.get("TRADE_HOME")
    try:
        if home:
            return Path(home).expanduser()
        from platformdirs import user_data_path

        return user_data_path("trade", appauthor=False)
    except RuntimeError:
        raise ConfigError(f"there is no home folder for {of}: set TRADE_HOME to a folder") from None
