"""Settings with which MCP clients start `trade mcp`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CLIENTS = {
    "claude": "Claude Desktop: claude_desktop_config.json; Claude Code: .mcp.json in the project",
    "cursor": "Cursor: .cursor/mcp.json in the project, or ~/.cursor/mcp.json",
    "codex": "Codex: ~/.codex/config.toml",
    "vscode": "VS Code: .vscode/mcp.json in the project",
}
"""Known clients, and their settings files."""

PATHS = ("TRADE_HOME", "TRADE_KEYSTORE", "TRADE_KEYSTORE_PASSWORD_FILE")
VARIABLES = (
    *(*PATHS, "TRADE_PROFILE", "TRADE_MOCK", "TRADE_BASE_URL", "TRADE_MARKET_BASE_URL", "TRADE_FLEET"),
    *(f"TRADE_BUDGET_{limit}" for limit in ("PER_CALL", "PER_HOUR", "PER_DAY", "PER_MONTH", "TOTAL")),
)
"""Variables that are in the settings: clients start servers without the shell's environment."""

KEYS = {"TRADE_API_KEY": "login", "TRADE_WALLET_KEY": "pay key import"}
"""Variables with keys, which are never in the settings, and the command that saves the key."""


def this_program() -> list[str]:
    """The command line of this program, whatever `trade` on the PATH is."""
    started = Path(os.path.abspath(sys.argv[0]))
    if started.stem != "trade" or not started.is_file():
        return [sys.executable, "-m", "tradesdk_cli"]
    return [str(started)] if os.access(started, os.X_OK) else [sys.executable, str(started)]


def configuration(client: str, words: Sequence[str], environ: Mapping[str, str]) -> str:
    """The settings of a client that runs `words`."""
    command, *args = words
    entry: dict[str, object] = {"command": command, "args": args}
    if environ:
        entry["env"] = dict(environ)
    if client == "codex":
        import tomlkit

        return tomlkit.dumps({"mcp_servers": {"trade": entry}}).rstrip()
    if client == "vscode":
        return json.dumps({"servers": {"trade": {"type": "stdio", **entry}}}, indent=2)
    return json.dumps({"mcpServers": {"trade": entry}}, indent=2)
