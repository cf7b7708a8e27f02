"""Where `signals stream` remembers how far it got: a file for each kind of run."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tradesdk_cli.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from tradesdk import StreamSignal, StreamStats
    from tradesdk_cli.session import Session

_RUN = ".run-"


class CheckpointProblem(ConfigProblem):
    """A file that remembers how far a stream got cannot be used."""

    code = "checkpoint"


def last_place(run: Session, chain: int, filters: Mapping[str, object]) -> tuple[Path, float | None]:
    """Where `--since last` continues: its file, and while there is none yet, the time to begin at; None is now.

    What another filter left out, or what went into another file, was never here: so each has a place of its own. It is
    the one of the last run with `--since last`; before there was any, that of the last run without.

    Raises:
        ConfigProblem: there is no API key.
    """
    stem = _stem(run, chain, filters)
    file = _with(stem, ".json")
    if file.exists():
        return file, None
    kept = _kept_by_runs(stem)
    if kept:
        file.unlink(missing_ok=True)  # a link that leads nowhere
        try:
            file.symlink_to(kept[-1].name)
        except OSError:  # no links here
            kept[-1].replace(file)
        return file, None
    since = None
    if not run.out.on_stdout and run.settings.out is not None:
        from tradesdk_cli.output.outfile import last_time

        since = last_time(run.settings.out, run.out.format_for(many=True))
    begins = "now" if since is None else "with the last signal in the file"
    run.out.event("no_last", f"no run like this one kept where it ended, so it begins {begins}")
    return file, since


class FilePlace:
    """A run with `--since last`."""

    goes_on = "the same command"

    def __init__(self, file: Path, open_stream: Callable[..., AbstractContextManager[AnyStream]]) -> None:
        self._file, self._open = file, open_stream

    def opened(self) -> AbstractContextManager[AnyStream]:
        return self._open(checkpoint=self._file, manual_ack=True)

    def ack(self, stream: AnyStream, signal: StreamSignal) -> None:
        stream.ack(signal)


class RunPlace:
    """Where a run without `--since last` keeps how far it got, for the first one with it.

    Nothing fails when it cannot. Nothing is kept once there was a run with `--since last`: what has come since that
    one is not done because this one begins later.
    """

    goes_on = "--since last"

    def __init__(
        self,
        run: Session,
        chain: int,
        filters: Mapping[str, object],
        open_stream: Callable[..., AbstractContextManager[AnyStream]],
    ) -> None:
        from tradesdk import TradeError

        self._open = open_stream
        self._file: Path | None = None
        with contextlib.suppress(ConfigProblem, TradeError, OSError):  # what is wrong is said by what needs it
            self._stem = _stem(run, chain, filters)
            if not _with(self._stem, ".json").exists():
                self._file = _with(self._stem, f"{_RUN}{time.time_ns():x}.json")

    @contextlib.contextmanager
    def opened(self) -> Iterator[AnyStream]:
        """The stream that is opened with this file for its checkpoint, or without any."""
        from tradesdk import CheckpointError

        done = False
        try:
            with contextlib.ExitStack() as stack:
                try:
                    stream = stack.enter_context(self._stream())
                except CheckpointError:
                    self._file = None
                    stream = stack.enter_context(self._stream())
                self._forget_earlier()
                yield stream
                done = True
        except CheckpointError:
            if not done:  # else it could not be written at the end
                raise

    def _stream(self) -> AbstractContextManager[AnyStream]:
        return self._open(checkpoint=self._file or False, manual_ack=self._file is not None)

    def ack(self, stream: AnyStream, signal: StreamSignal) -> None:
        """The signal is done."""
        from tradesdk import CheckpointError

        if self._file is not None:
            with contextlib.suppress(CheckpointError):  # then the next run repeats it
                stream.ack(signal)

    def _forget_earlier(self) -> None:
        """This run has begun: those before it are not the last one any more."""
        if self._file is not None and not _with(self._stem, ".json").is_symlink():
            with contextlib.suppress(OSError):
                for file in _of_runs(self._stem):
                    if not file.name.startswith(self._file.name):
                        file.unlink(missing_ok=True)


def _stem(run: Session, chain: int, filters: Mapping[str, object]) -> Path:
    """The place without its ending, for this chain, these filters, the file of `--out`, and the service and key."""
    settings = run.settings
    kind = _kind(run, filters)
    if settings.mock:
        name = f"{chain}-{_short(kind)}" if kind else str(chain)
        return run.mock.file.with_suffix(f".{name}.checkpoint")  # all worlds have one address and key
    found = run.api_key(run.client.base_url)
    kind |= {"service": run.client.base_url, "key": _told_apart(found[0]) if found is not None else ""}
    return settings.data_folder() / "checkpoints" / f"stream-{chain}-{_short(kind)}"


def _with(stem: Path, ending: str) -> Path:
    return stem.with_name(stem.name + ending)


def _of_runs(stem: Path) -> list[Path]:
    """All that runs without `--since last` left there: checkpoints, and what stands beside them."""
    try:
        return [file for file in stem.parent.iterdir() if file.name.startswith(stem.name + _RUN)]
    except OSError:
        return []


def _kept_by_runs(stem: Path) -> list[Path]:
    """Their checkpoints, the one that was written last at the end."""
    return sorted((file for file in _of_runs(stem) if file.suffix == ".json"), key=lambda file: file.stat().st_mtime_ns)


def _kind(run: Session, filters: Mapping[str, object]) -> dict[str, str]:
    """Filters and the file of `--out`, where there are any: what makes a run one of its kind."""
    kind = {name: str(value).lower() for name, value in filters.items() if value is not None}
    if not run.out.on_stdout and run.settings.out is not None:
        kind["out"] = os.path.realpath(run.settings.out)
    return kind


def _short(kind: dict[str, str]) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:12]


def _told_apart(key: str) -> str:
    """Tells one API key from another. The key does not follow from it."""
    import hashlib

    return hashlib.sha256(b"trade stream\0" + key.encode()).hexdigest()[:16]


class AnyStream(Protocol):
    """The SDK's stream, blocking."""

    @property
    def stats(self) -> StreamStats: ...

    @property
    def catching_up(self) -> bool: ...

    def __iter__(self) -> Iterator[Any]: ...

    def ack(self, signal: StreamSignal) -> None: ...

    def close(self) -> None: ...


class StreamSource(Protocol):
    """Where a run gets its stream, and who keeps how far it got.

    `goes_on` says to people what goes on there later.
    """

    @property
    def goes_on(self) -> str: ...

    def opened(self) -> AbstractContextManager[AnyStream]: ...

    def ack(self, stream: AnyStream, signal: StreamSignal) -> None: ...
