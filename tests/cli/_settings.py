"""Settings files for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from tradesdk.local import Profiles, SettingsFile
from tradesdk_cli.config.files import Files

from ._terminal import Terminal

CONFIG = Path("/home/me/config.toml")


def files(project: Mapping[str, Any] | None = None, *, default: str | None = "work", **profiles: Any) -> Files:
    config: dict[str, Any] = {"profiles": profiles} | ({"profile": default} if default in profiles else {})
    file = None if project is None else SettingsFile(Path("/project/.trade.toml"), tomlkit.dumps(project))
    return Files(file, Profiles(config, CONFIG))


def configured(trade: Terminal, text: str) -> Path:
    file = trade.home / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file
