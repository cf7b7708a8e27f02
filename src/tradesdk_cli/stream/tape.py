"""Tapes: signals with their times, one JSON object a line, for `trade replay`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import typer

from tradesdk_cli.errors import CliError, UsageProblem
from tradesdk_cli.text import to_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping
    from pathlib import Path

    from tradesdk import Clock

_LONGEST_LINE = 4 * 1024 * 1024
_LONGEST_TAPE = 10 * 366 * 86400.0
_NAP = 3600.0


class TapeProblem(CliError):
    """A tape cannot be written, or a line of it cannot be read."""

    code = "tape"


class Tape:
    """A tape that is being recorded. Every line is written at once."""

    def __init__(self, path: Path, clock: Clock, *, force: bool) -> None:
        """Makes the file; with `force` one that exists is emptied.

        Raises:
            UsageProblem: it exists already.
            TapeProblem: it cannot be written.
        """
        self._path, self._clock = path, clock
        try:
            self._file = open(path, "wb" if force else "xb", buffering=0)  # noqa: SIM115  # closed by close()
        except FileExistsError:
            raise UsageProblem(f"--tape: {path} exists already", "--force records over it") from None
        except OSError as error:
            raise self._problem(error) from None
        self._begin = clock.monotonic()

    def record(self, event: Mapping[str, Any]) -> None:
        """Writes one event with the seconds since the beginning.

        Raises:
            TapeProblem: the disk is full, for example.
        """
        line = to_json({"at": round(self._clock.monotonic() - self._begin, 3), "event": event})
        left = memoryview(line.encode() + b"\n")
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise self._problem(error) from None

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _problem(self, error: OSError) -> TapeProblem:
        return TapeProblem(f"the tape {self._path} cannot be written: {error.strerror}", "choose another file")


@dataclass(frozen=True)
class Recorded:
    """One line of a tape: seconds since the beginning, and the event as it was printed."""

    at: float
    event: dict[str, Any]


@dataclass(frozen=True)
class Damaged:
    """A line that cannot be read.

    `unfinished`: it is the last one and has no end, which is what a recording leaves that was killed.
    """

    number: int
    reason: str
    unfinished: bool


def read_tape(path: Path) -> Generator[Recorded | Damaged, None, None]:
    """The lines of a tape, one by one.

    Raises:
        UsageProblem: there is no such file.
        TapeProblem: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE):
                number += 1
                found = _read_line(line)
                ended = line.endswith(b"\n")
                while not line.endswith(b"\n") and (line := file.readline(_LONGEST_LINE)):
                    found, ended = f"it is longer than {_LONGEST_LINE // 2**20} MiB", True
                yield found if isinstance(found, Recorded) else Damaged(number, found, not ended)
    except FileNotFoundError:
        raise UsageProblem(f"there is no file {path}", "trade signals stream --tape FILE records one") from None
    except OSError as error:
        raise TapeProblem(f"the tape {path} cannot be read: {error.strerror}") from None


class Pace(Protocol):
    """What playing needs of time, in seconds."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


def paced(lines: Iterable[Recorded | Damaged], speed: float, clock: Pace) -> Iterator[Recorded | Damaged]:
    """The lines when they are due: `speed` times as fast as they came, all at once when it is infinite."""
    begin = clock.monotonic()
    for line in lines:
        if isinstance(line, Recorded):
            while (wait := line.at / speed - (clock.monotonic() - begin)) > 0:
                clock.sleep(min(wait, _NAP))  # the longest sleep that a system takes is not that of a tape
        yield line


def parse_speed(value: str) -> float:
    """`10` as ten times as fast, `max` as without any pause."""
    if value.strip().lower() == "max":
        return math.inf
    try:
        speed = float(value)
    except ValueError:
        speed = math.nan
    if not 0.001 <= speed <= 1e9:
        raise typer.BadParameter("a speed is a number above 0, such as 10, or max")
    return speed


def _read_line(line: bytes) -> Recorded | str:
    """What a line holds, or what is wrong with it."""
    from tradesdk import Heartbeat, RawResponse, StreamSignal

    try:
        held = RawResponse(200, {}, line).json()  # the standard library's reader can overflow the stack
    except ValueError:
        return "it is not JSON"
    if not isinstance(held, dict) or not isinstance(held.get("event"), dict):
        return "it is not an object with at and event"
    at, event = held.get("at"), held["event"]
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= _LONGEST_TAPE:
        return "at is not seconds since the beginning"
    kinds: dict[object, type[Heartbeat] | type[StreamSignal]] = {"heartbeat": Heartbeat, "signal": StreamSignal}
    kind = event.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        return "its event is neither a signal nor a heartbeat"
    try:
        kinds[kind].model_validate(event)
    except ValueError:  # pydantic's is one
        return f"its event is not a {kind} as the service sends it"
    return Recorded(float(at), event)
