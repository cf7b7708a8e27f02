"""What is written into the settings of MCP clients so that they start `trade mcp`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENTS = {
    "claude": "Claude Desktop: claude_desktop_config.json; Claude Code: .mcp.json in the project",
    "cursor": "Cursor: .cursor/mcp.json in the project, or ~/.cursor/mcp.json",
    "codex": "Codex: ~/.codex/config.toml",
    "vscode": "VS Code: .vscode/mcp.json in the project",
}
"""The clients that are known, and the files that they read."""


def configuration(client: str, command: str, args: Sequence[str]) -> str:
    """The text for the file of a client."""
    if client == "codex":
        quoted = ", ".join(json.dumps(word) for word in args)
        return f"[mcp_servers.trade]\ncommand = {json.dumps(command)}\nargs = [{quoted}]"
    entry: dict[str, object] = {"command": command, "args": list(args)}
    if client == "vscode":
        return json.dumps({"servers": {"trade": {"type": "stdio", **entry}}}, indent=2)
    return json.dumps({"mcpServers": {"trade": entry}}, indent=2)
