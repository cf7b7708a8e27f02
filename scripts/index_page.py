"""README.md as a package index shows it: hatchling takes it from here whenever it builds.

On an index, a link to a file of the repository leads nowhere. With an address of the repository in `pyproject.toml`
(`[project.urls]`, `Source`) it leads to that file at the tag of this version. The last line is what registries of MCP
servers look for, as proof that package and server have one owner.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(\[[^\]]+\]\()(?![a-z]+:|#)([^)\s]+\))")


class IndexPage(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        if source is not None:
            text = index_page(text, source.rstrip("/"), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def index_page(text: str, source: str, version: str) -> str:
    """The README of a version whose repository is at `source`, such as https://github.com/OWNER/REPOSITORY."""
    text = LINK.sub(rf"\g<1>{source}/blob/v{version}/\g<2>", text)
    owner = urlsplit(source).path.split("/")[1]
    return f"{text}\n<!-- mcp-name: io.github.{owner}/trade -->\n"
