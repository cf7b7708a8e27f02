"""Where `signals stream` remembers how far it got: a file for each kind of run with `--since last`, or a given one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.lists.checkpoints import CheckpointProblem, told_apart
from tradesdk_cli.results.outfile import FULL, GOES_ON
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tradesdk_cli.context import Session

_LARGEST = 64 * 1024


def last_place(run: Session, chain: int, filters: Mapping[str, object]) -> Path | bool:
    """The file for this chain, these filters, the file of `--out`, and the service and key.

    What another filter left out, or what went into another file, was never here: so each has a place of its own. True
    is the SDK's own place, for all signals of a chain on stdout.

    Raises:
        ConfigProblem: there is no API key.
    """
    settings = run.settings
    kind = _kind(run, filters)
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


class Purpose:
    """What a `--checkpoint FILE` of a stream is for, in `FILE.for` beside it.

    What a run with other filters left out, or wrote into another file, is done as well: it would never come here.
    """

    def __init__(self, file: Path, run: Session, filters: Mapping[str, object]) -> None:
        """Looks what the checkpoint is for. One that does not say so is for whatever comes.

        Raises:
            UsageProblem: it is for something else.
            CheckpointProblem: what it is for cannot be read.
        """
        self._shown = one_line(str(file), 200)
        self._beside = f"{os.path.realpath(file)}.for"
        self._kind = _kind(run, filters)
        self._kept = self._read() if file.exists() else None
        different = None if self._kept is None else _different(self._kept, self._kind)
        if different is not None:
            raise UsageProblem(
                f"--checkpoint: {self._shown} {different}", "use the same options, or choose another file for it"
            )

    def keep(self) -> None:
        """Writes it down. The checkpoint is locked by then, so nobody else does.

        Raises:
            CheckpointProblem: it cannot be written.
        """
        if self._kept == self._kind:
            return
        part = f"{self._beside}.tmp"
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.write(json.dumps(self._kind) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self._beside)
        except OSError as error:
            raise self._failed("written", error) from None

    def _read(self) -> dict[str, str] | None:
        from tradesdk import RawResponse

        try:
            with open(self._beside, "rb") as file:
                found = RawResponse(200, {}, file.read(_LARGEST)).json()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", error) from None
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise CheckpointProblem(
                f"--checkpoint: {one_line(self._beside, 200)}, which says what it is for, is damaged",
                "choose another file for --checkpoint; or remove that one, when the options are the same as before",
            )
        return found

    def _failed(self, what: str, error: OSError) -> CheckpointProblem:
        hint = GOES_ON if error.errno in FULL else "choose another file, or another folder"
        return CheckpointProblem(
            f"--checkpoint: {one_line(self._beside, 200)} cannot be {what}: {error.strerror}", hint
        )


def _kind(run: Session, filters: Mapping[str, object]) -> dict[str, str]:
    """Filters and the file of `--out`, where there are any: what makes a run one of its kind."""
    kind = {name: str(value).lower() for name, value in filters.items() if value is not None}
    if not run.out.on_stdout and run.settings.out is not None:
        kind["out"] = os.path.realpath(run.settings.out)
    return kind


def _different(was: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """How they differ, in words; None when they do not."""

    def asked(kind: Mapping[str, str]) -> str:
        words = (f"--{name.replace('_', '-')} {value}" for name, value in kind.items() if name != "out")
        return one_line(" ".join(words), 200) or "no filters"

    def where(kind: Mapping[str, str]) -> str:
        return one_line(kind.get("out", "stdout"), 200)

    if asked(was) != asked(now):
        return f"is of a stream with {asked(was)}, and this would be one with {asked(now)}"
    return None if was == now else f"is of a stream to {where(was)}, and this would go to {where(now)}"


def _short(kind: dict[str, str]) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:12]
