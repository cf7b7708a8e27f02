"""Where `signals stream --since last` remembers how far it got: a file for each kind of run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tradesdk_cli.lists.checkpoints import told_apart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tradesdk_cli.context import Session


def last_place(run: Session, chain: int, filters: Mapping[str, object]) -> Path | bool:
    """The file for this chain, these filters, the file of `--out`, and the service and key.

    What another filter left out, or what went into another file, was never here: so each has a place of its own. True
    is the SDK's own place, for all signals of a chain on stdout.

    Raises:
        ConfigProblem: there is no API key.
    """
    settings = run.settings
    kind = {name: str(value).lower() for name, value in filters.items() if value is not None}
    if not run.out.on_stdout and settings.out is not None:
        kind["out"] = os.path.realpath(settings.out)
    if not settings.mock:
        if not kind:
            return True
        found = run.api_key(run.client.base_url)
        kind |= {"service": run.client.base_url, "key": told_apart(found[0]) or "" if found is not None else ""}
    name = f"{chain}-{_short(kind)}" if kind else str(chain)
    if not settings.mock:
        place = settings.data_folder() / "checkpoints" / f"stream-{name}.json"
    else:
        from tradesdk_cli.embedded import world_file

        place = world_file(settings).with_suffix(f".{name}.checkpoint.json")  # all worlds have one address and key
    if not place.exists():
        run.out.event("no_last", "no run like this one ended before, so it begins now")
    return place


def _short(kind: dict[str, str]) -> str:
    import hashlib
    import json

    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:12]
