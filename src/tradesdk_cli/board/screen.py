"""The terminal of the board: alternate screen, keys without Enter, resizing; restored at the end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import ClosedPipe
from tradesdk_cli.interrupts import StopRequested

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.text import Text

    from tradesdk_cli.output.printer import Output


_SEQUENCES = {
    b"[A": "up",
    b"[B": "down",
    b"[C": "right",
    b"[D": "left",
    b"OA": "up",
    b"OB": "down",
    b"OC": "right",
    b"OD": "left",
    b"[5~": "pageup",
    b"[6~": "pagedown",
    b"[H": "home",
    b"[F": "end",
    b"OH": "home",
    b"OF": "end",
    b"[1~": "home",
    b"[4~": "end",
    b"[Z": "backtab",
}


def parse_keys(data: bytes) -> tuple[list[str], bytes]:
    """The keys in what a terminal sent, and what is left: the beginning of a sequence whose end has not come yet.

    Letters are themselves; others are `up`, `pagedown`, `tab`, `ctrl-c` and so on. Unknown sequences are left out.
    """
    keys: list[str] = []
    while data:
        if data[:1] == b"\x1b":
            length = _length(data)
            if length is None:
                return keys, data
            name = _SEQUENCES.get(data[1:length])
            if name is not None:
                keys.append(name)
            data = data[length:]
            continue
        code = data[0]
        if code == 9:
            keys.append("tab")
        elif code in (3, 4):
            keys.append("ctrl-c")
        elif 32 <= code < 127:
            keys.append(chr(code))
        data = data[1:]
    return keys, b""


def _length(data: bytes) -> int | None:
    """How long the sequence at the beginning of `data` is; None when its end is missing."""
    if len(data) == 1:
        return None
    if data[1:2] == b"O":
        return 3 if len(data) >= 3 else None
    if data[1:2] != b"[":
        return 1  # the key Esc, before another key
    for place in range(2, len(data)):
        if 0x40 <= data[place] <= 0x7E:
            return place + 1
    return None if len(data) < 32 else len(data)


# Lines do not wrap, so one that is too long does not move the others.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"


class Screen:
    """The terminal, taken over until this ends. Ctrl-C and SIGTERM are not handled here.

    Ctrl-\\ and a terminal that hangs up raise `StopRequested`, so the terminal is restored too. Ctrl-Z restores it, and
    the foreground takes it over again.
    """

    def __init__(self, out: Output) -> None:
        self._out = out
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._modes: list[Any] | None = None
        self._before: dict[int, Any] = {}
        self._rest = b""
        self._open = self._leaving = False
        self._input: int | None = None
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)

    def __enter__(self) -> Screen:
        self._input = _terminal_input()
        # Before anything is changed: whatever ends the process from here on finds the way back.
        handlers: dict[str, Callable[[int, Any], object]] = {
            "SIGWINCH": self._resized,
            "SIGTSTP": self._to_be_left,
            "SIGQUIT": self._ended,
            "SIGHUP": self._ended,
        }
        for name, handler in handlers.items():
            number = getattr(signal, name, None)
            if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
                self._before[number] = signal.signal(number, handler)
        try:
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}
        for end in (self._wake_read, self._wake_write):
            os.close(end)

    def wake(self) -> None:
        """From any thread: whoever waits for a key continues at once."""
        with contextlib.suppress(OSError):  # full: then it is awake already; closed: nobody waits any more
            os.write(self._wake_write, b".")

    def size(self) -> tuple[int, int]:
        """Columns and lines as they are now."""
        try:
            found = os.get_terminal_size(self._out.stdout.fileno())
        except (OSError, ValueError):
            return 80, 24
        return (found.columns or 80), (found.lines or 24)

    def show(self, lines: Sequence[Text]) -> None:
        """Draws what differs from what is drawn already."""
        if self.size() != self._size:
            self._size, self._drawn = self.size(), []
        wanted = self._rendered(lines)
        pieces = []
        for number in range(max(len(wanted), len(self._drawn))):
            text = wanted[number] if number < len(wanted) else ""
            if number >= len(self._drawn) or self._drawn[number] != text:
                # Erased first: in the last column, erasing would take the last character.
                pieces.append(f"\x1b[{number + 1};1H\x1b[K{text}")
        if not self._drawn:
            pieces.insert(0, "\x1b[H\x1b[J")
        if pieces:
            self._write("".join(pieces))
        self._drawn = wanted

    def wait(self, seconds: float, *, news: bool = True) -> list[str]:
        """The keys that are pressed; none after `seconds`, or, with `news`, at a new size and when `wake` is called."""
        ends = [self._wake_read] if news else []
        ends += [self._input] if self._input is not None else []
        try:
            ready = select.select(ends, [], [], max(0.0, seconds))[0]
        except (OSError, ValueError):  # no such call for this kind of input: Windows
            import time

            time.sleep(min(0.2, max(0.0, seconds)))
            return []
        if self._leaving:
            self._leave_for_shell()
            return []
        if self._wake_read in ready:
            with contextlib.suppress(OSError):
                os.read(self._wake_read, 4096)
        if self._input is None or self._input not in ready:
            return []
        data = os.read(self._input, 1024)
        if not data:  # the terminal has gone
            raise ClosedPipe
        keys, self._rest = parse_keys(self._rest + data)
        return keys

    def _take(self) -> None:
        self._open = True
        if self._input is not None:
            import termios
            import tty

            if self._modes is None:
                self._modes = termios.tcgetattr(self._input)
            tty.setcbreak(self._input, termios.TCSANOW)  # Ctrl-C and Ctrl-Z stay signals
        self._write(_ENTER)
        self._drawn = []

    def give_back(self) -> None:
        """Puts the terminal back as it was; doing it again does nothing, nor does it where the terminal has gone."""
        if not self._open:
            return
        self._open = False
        if self._modes is not None and self._input is not None:
            import termios

            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSANOW, self._modes)
        with contextlib.suppress(ClosedPipe):
            self._write(_LEAVE)

    def _resized(self, *_: object) -> None:
        self.wake()

    def _ended(self, number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # the second one ends it at once
        raise StopRequested(number)

    def _to_be_left(self, *_: object) -> None:
        # Nothing is written here: whoever is interrupted may be writing at this moment.
        self._leaving = True
        self.wake()

    def _leave_for_shell(self) -> None:
        self._leaving = False
        self.give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # Here it continues, after fg.
        signal.signal(signal.SIGTSTP, self._to_be_left)
        self._take()

    def _rendered(self, lines: Sequence[Text]) -> list[str]:
        console = self._out.console()
        found = []
        for line in lines:
            with console.capture() as capture:
                console.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False, end="")
            found.append(capture.get())
        return found

    def _write(self, text: str) -> None:
        try:
            self._out.stdout.write(text)
            self._out.stdout.flush()
        except OSError:
            raise ClosedPipe from None


def _terminal_input() -> int | None:
    """The descriptor that keys come from; None where there are none."""
    try:
        import termios
    except ImportError:  # Windows
        return None
    try:
        found = sys.stdin.fileno()
        termios.tcgetattr(found)
    except (OSError, ValueError, AttributeError, termios.error):  # a pipe, nothing at all
        return None
    return found
