"""The position of `signals stream`: a checkpoint for each combination of service, key, chain, filters and --out file.

`STEM.json` is the position of `--since last`. Before the first such run, each other run has a file of its own,
`STEM.run-TIME.json`, which replaces that of the run before; the first `--since last` continues with it.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, Any, Protocol

from tradesdk import CheckpointError, TradeError
from tradesdk_cli.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tradesdk import StreamSignal, StreamStats
    from tradesdk_cli.run import Run


class Stream(Protocol):
    """The stream of the service, or of a fleet."""

    @property
    def stats(self) -> StreamStats: ...
    @property
    def catching_up(self) -> bool: ...
    def __iter__(self) -> Iterator[Any]: ...
    def ack(self, signal: Any, /) -> object: ...
    def close(self) -> None: ...


class Bookmark:
    """The position of a run.

    Attributes:
        goes_on: the command that continues there, for people.
    """

    def __init__(self, file: Path | None, *, needed: bool) -> None:
        """None: no position is saved here, but `needed`, a group saves its own.

        Without `needed`, one that cannot be saved is no error.
        """
        self._file, self._needed = file, needed
        self.goes_on = "the same command" if needed else "--since last"

    @contextlib.contextmanager
    def opened(self, open_stream: Callable[..., AbstractContextManager[Stream]]) -> Iterator[Stream]:
        """The stream with this file as its checkpoint."""
        done = False
        try:
            with contextlib.ExitStack() as stack:
                try:
                    opened = open_stream(checkpoint=self._file or False, manual_ack=self._file is not None)
                    stream = stack.enter_context(opened)
                except CheckpointError:
                    if self._needed:
                        raise
                    self._file = None
                    stream = stack.enter_context(open_stream(checkpoint=False, manual_ack=False))
                if self._file is not None:  # it replaces the files of other runs
                    last = self._file.with_name(self._file.name.partition(".run-")[0].removesuffix(".json") + ".json")
                    for other in _runs(last):
                        if not other.name.startswith(self._file.name):
                            other.unlink(missing_ok=True)
                yield stream
                done = True
        except CheckpointError:
            if self._needed or not done:  # else it might not be writable at the end
                raise

    def ack(self, stream: Stream, signal: StreamSignal) -> None:
        """The signal is done."""
        try:
            if self._file is not None or self._needed:
                stream.ack(signal)
        except CheckpointError:
            if self._needed:
                raise  # else the next run repeats it


def last_bookmark(run: Run, chain: int, filters: Mapping[str, object]) -> tuple[Bookmark, float | None]:
    """The position of `--since last`, and, while there is none, the time to begin at; None: now."""
    file = _file(run, chain, filters)
    runs = [each for each in _runs(file) if each.suffix == ".json"]
    if runs and not file.exists():
        max(runs, key=lambda each: each.stat().st_mtime_ns).replace(file)
    bookmark = Bookmark(file, needed=True)
    if file.exists():
        return bookmark, None
    since = None
    if run.out.file is not None:
        from tradesdk_cli.output.outfile import last_time

        since = last_time(run.out.file.path, run.out.format_for(many=True))
    begins = "now" if since is None else "with the last signal in the file"
    run.out.event("no_last", f"no earlier run like this one saved its position, so it begins {begins}")
    return bookmark, since


def bookmark_of_run(run: Run, chain: int, filters: Mapping[str, object]) -> Bookmark:
    """The position of a run without `--since last`, for the first run with it.

    After that one, nothing is saved: this run begins later, so signals since that one are not done.
    """
    file = None
    with contextlib.suppress(ConfigProblem, TradeError, OSError):  # the command that needs it reports the error
        last = _file(run, chain, filters)
        file = None if last.exists() else last.with_suffix(f".run-{time.time_ns():x}.json")
    return Bookmark(file, needed=False)


def _file(run: Run, chain: int, filters: Mapping[str, object]) -> Path:
    """The file of `--since last` for this chain, filters, `--out` file, service and key."""
    settings = run.settings
    kind = {name: str(value).lower() for name, value in filters.items() if value is not None}
    if run.out.file is not None:
        kind["out"] = os.path.realpath(run.out.file.path)
    if settings.mock:
        from tradesdk_cli.mockworld import world_file

        name = f"{chain}-{_short(kind)}" if kind else str(chain)
        return world_file(settings).with_suffix(f".{name}.checkpoint.json")  # all worlds have the same address and key
    found = run.api_key(run.client.base_url)
    key = "" if found is None else hashlib.sha256(b"trade stream\0" + found[0].encode()).hexdigest()[:16]
    kind |= {"service": run.client.base_url, "key": key}
    return settings.data_folder() / "checkpoints" / f"stream-{chain}-{_short(kind)}.json"


def _runs(file: Path) -> list[Path]:
    """The files of runs without `--since last`: checkpoints, and files beside them."""
    return list(file.parent.glob(f"{glob.escape(file.stem)}.run-*"))


def _short(kind: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:12]
