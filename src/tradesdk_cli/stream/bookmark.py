"""The position of `signals stream`: one file for each combination of service, key, chain, filters and output file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, Any, Protocol

from tradesdk_cli.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tradesdk import StreamSignal, StreamStats
    from tradesdk_cli.session import Session

_RUN = ".run-"


class CheckpointProblem(ConfigProblem):
    """A position file cannot be used."""

    code = "checkpoint"


class Stream(Protocol):
    """The stream of the service, or of a fleet."""

    @property
    def stats(self) -> StreamStats: ...
    @property
    def catching_up(self) -> bool: ...
    def __iter__(self) -> Iterator[Any]: ...
    def ack(self, signal: Any, /) -> None: ...
    def close(self) -> None: ...


class Bookmark:
    """The position file of a run.

    Attributes:
        goes_on: the command that continues there, for people.
    """

    def __init__(self, file: Path | None, *, needed: bool, earlier: Callable[[], list[Path]] = list) -> None:
        """Without `needed`, a missing file is no error. `earlier`: position files that this one replaces."""
        self._file, self._needed, self._earlier = file, needed, earlier
        self.goes_on = "the same command" if needed else "--since last"

    @contextlib.contextmanager
    def opened(self, open_stream: Callable[..., AbstractContextManager[Stream]]) -> Iterator[Stream]:
        """The stream with this file as its checkpoint."""
        from tradesdk import CheckpointError

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
                if self._file is not None:
                    for file in self._earlier():
                        if not file.name.startswith(self._file.name):
                            file.unlink(missing_ok=True)
                yield stream
                done = True
        except CheckpointError:
            if self._needed or not done:  # else it might not be writable at the end
                raise

    def ack(self, stream: Stream, signal: StreamSignal) -> None:
        """The signal is done."""
        from tradesdk import CheckpointError

        try:
            if self._file is not None:
                stream.ack(signal)
        except CheckpointError:
            if self._needed:
                raise  # else the next run repeats it


def last_bookmark(run: Session, chain: int, filters: Mapping[str, object]) -> tuple[Bookmark, float | None]:
    """The position of `--since last`, and, while there is none, the time to begin at; None: now.

    Each combination of filters and output file has its own position. It is that of the last run with `--since last`,
    or, before there was any, of the last run without.
    """
    stem = _stem(run, chain, filters)
    file = _with(stem, ".json")
    bookmark = Bookmark(file, needed=True)
    if file.exists():
        return bookmark, None
    runs = [each for each in _of_runs(stem) if each.suffix == ".json"]
    if runs:
        last = max(runs, key=lambda each: each.stat().st_mtime_ns)
        file.unlink(missing_ok=True)  # a dangling link
        try:
            file.symlink_to(last.name)
        except OSError:  # a system without links
            last.replace(file)
        return bookmark, None
    since = None
    if run.out.file is not None:
        from tradesdk_cli.output.outfile import last_time

        since = last_time(run.out.file.path, run.out.format_for(many=True))
    begins = "now" if since is None else "with the last signal in the file"
    run.out.event("no_last", f"no earlier run like this one saved its position, so it begins {begins}")
    return bookmark, since


def bookmark_of_run(run: Session, chain: int, filters: Mapping[str, object]) -> Bookmark:
    """The position file of a run without `--since last`, for the first one with it.

    After a run with `--since last`, nothing is saved: this run begins later, so signals since that one are not done.
    """
    from tradesdk import TradeError

    with contextlib.suppress(ConfigProblem, TradeError, OSError):  # the command that needs it reports the error
        stem = _stem(run, chain, filters)
        if not _with(stem, ".json").exists():
            return Bookmark(
                _with(stem, f"{_RUN}{time.time_ns():x}.json"),
                needed=False,
                earlier=lambda: [] if _with(stem, ".json").is_symlink() else _of_runs(stem),
            )
    return Bookmark(None, needed=False)


def _stem(run: Session, chain: int, filters: Mapping[str, object]) -> Path:
    """The path of the position without its suffix, for this chain, filters, `--out` file, service and key."""
    settings = run.settings
    kind = {name: str(value).lower() for name, value in filters.items() if value is not None}
    if run.out.file is not None:
        kind["out"] = os.path.realpath(run.out.file.path)
    if settings.mock:
        name = f"{chain}-{_short(kind)}" if kind else str(chain)
        return run.mock.file.with_suffix(f".{name}.checkpoint")  # all mock worlds have the same address and key
    found = run.api_key(run.client.base_url)
    key = "" if found is None else hashlib.sha256(b"trade stream\0" + found[0].encode()).hexdigest()[:16]
    kind |= {"service": run.client.base_url, "key": key}
    return settings.data_folder() / "checkpoints" / f"stream-{chain}-{_short(kind)}"


def _with(stem: Path, ending: str) -> Path:
    return stem.with_name(stem.name + ending)


def _of_runs(stem: Path) -> list[Path]:
    """All files of runs without `--since last`: checkpoints, and files beside them."""
    try:
        return [file for file in stem.parent.iterdir() if file.name.startswith(stem.name + _RUN)]
    except OSError:
        return []


def _short(kind: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:12]
