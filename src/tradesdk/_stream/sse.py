"""Server-sent events (`text/event-stream`) from bytes to the data of each event, as the HTML standard defines. No I/O.

The type of an event is not read: the JSON in its data names its kind. Data stays bytes. Only ASCII matters here: line
ends, the colon, names of fields. No ASCII byte is part of another UTF-8 character, even in broken UTF-8, so it makes no
difference whether bytes are decoded before or after splitting.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_LINE = 1024 * 1024
MAX_EVENT = 4 * 1024 * 1024
HEAD = 64 * 1024
LONGEST_RETRY = 10**15  # milliseconds; a server could send a megabyte of digits

_MARK = b"\xef\xbb\xbf"  # a byte order mark
_CR, _SPACE = b"\r "


class TooLong(NamedTuple):
    """A line or an event is too long. Its end is unknown, so the rest of the stream cannot be read."""

    what: str
    limit: int
    head: bytes

    def __str__(self) -> str:
        return f"{'an event' if self.what == 'event' else 'a line'} of the stream is longer than {self.limit:,} bytes"


class SSEDecoder:
    """Reads the bytes of one connection; the next connection needs a new one."""

    def __init__(self, *, max_line: int = MAX_LINE, max_event: int = MAX_EVENT) -> None:
        self.last_event_id = ""
        self.retry: int | None = None  # milliseconds that the server named
        self.error: TooLong | None = None  # events before it were returned, and no more will be
        self._max_line = max_line
        self._max_event = max_event
        self._start: bytes | None = b""  # the first bytes, while they may still become a byte order mark
        self._after_cr = False  # the next LF belongs to the CR before it
        self._line = bytearray()  # the unfinished line
        self._data: bytes | bytearray | None = None  # of the unfinished event; None without a data line
        self._id = ""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes: their lines joined by LF. A CR ends its line at once."""
        if self._start is not None:
            chunk = self._start + chunk
            if _MARK.startswith(chunk):
                self._start = chunk
                return []
            self._start = None
            chunk = chunk.removeprefix(_MARK)
        if not chunk or self.error is not None:
            return []
        if self._after_cr:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if _CR in chunk:
            self._after_cr = chunk[-1] == _CR
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        is_event = chunk[:6] == b"data: " and chunk[-2:] == b"\n\n" and chunk.count(b"\n") == 2  # the usual case
        if is_event and not self._line and self._data is None and len(chunk) < min(self._max_line, self._max_event):
            self.last_event_id = self._id
            return [chunk[6:-2]]
        events: list[bytes] = []
        lines = chunk.split(b"\n")  # from here on only LF ends a line
        if len(lines) == 1:
            self._line += chunk
        else:
            if self._line:
                lines[0] = bytes(self._line) + lines[0]
            self._line = bytearray(lines.pop())
            self._read(lines, events)
        if len(self._line) > self._max_line:
            self._fail("line", self._max_line, self._line)
        return events

    def _read(self, lines: list[bytes], events: list[bytes]) -> None:
        """Read whole lines, and append the data of the events that they complete."""
        data, longest = self._data, self._max_line
        for line in lines:
            if not line:  # the end of an event
                self.last_event_id = self._id
                if data is not None:
                    events.append(bytes(data))
                    data = None
                continue
            if len(line) > longest:
                self._fail("line", longest, line)
                return
            name, _, value = line.partition(b":")
            if value and value[0] == _SPACE:
                value = value[1:]
            if name == b"data":
                if data is None:
                    data = value
                else:
                    if isinstance(data, bytes):
                        data = bytearray(data)
                    data += b"\n"
                    data += value
                if len(data) > self._max_event:
                    self._fail("event", self._max_event, data)
                    return
            elif name == b"id":
                if 0 not in value:
                    self._id = value.decode("utf-8", "replace")
            elif name == b"retry" and value.isdigit():  # bytes.isdigit: 0 to 9 only
                self.retry = min(int(value.lstrip(b"0")[:17] or b"0"), LONGEST_RETRY)
        self._data = data

    def _fail(self, what: str, limit: int, offender: bytes | bytearray) -> None:
        if self.error is None:
            # At most the limit, so that it does not depend on how the bytes were split.
            self.error = TooLong(what, limit, bytes(offender[: min(HEAD, limit)]))
        self._line, self._data = bytearray(), None
