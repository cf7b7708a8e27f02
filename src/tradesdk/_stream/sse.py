"""An event stream from bytes to events, as the HTML standard reads it (`text/event-stream`). Pure: it is fed.

Data stays bytes. All that matters here is ASCII: line ends, the colon, names of fields. UTF-8 hides no ASCII byte, not
even where it is broken, so decoding what was cut out gives what cutting up the decoded stream would have given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAX_LINE = 1024 * 1024
MAX_EVENT = 4 * 1024 * 1024
HEAD = 64 * 1024
LONGEST_RETRY = 10**15  # milliseconds; also what keeps a server from having us convert a megabyte of digits

_MARK = b"\xef\xbb\xbf"  # a byte order mark
_LF, _CR, _SPACE = b"\n\r "


class ServerSentEvent:
    """One event.

    Attributes:
        data: its data lines joined by LF, as they came.
        event: its type; "" when the stream gave none (the standard then says `message`).
        id: the last event id when it was dispatched; "" when there was none.
    """

    __slots__ = ("data", "event", "id")

    def __init__(self, data: bytes, event: str = "", id: str = "") -> None:
        self.data = data
        self.event = event
        self.id = id

    @property
    def text(self) -> str:
        """The data as text; what is not UTF-8 is replaced as the standard says."""
        return self.data.decode("utf-8", "replace")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ServerSentEvent):
            return NotImplemented
        return self.data == other.data and self.event == other.event and self.id == other.id

    def __repr__(self) -> str:
        return f"ServerSentEvent(data={self.data!r}, event={self.event!r}, id={self.id!r})"


class SSELimitError(ValueError):
    """A line or an event is longer than allowed. Nobody knows where it ends, so the stream cannot be read on.

    Attributes:
        what: "line", or "event" for the joined data of one.
        limit: how many bytes were allowed.
        head: how it begins, at most 64 KiB.
    """

    def __init__(self, what: str, limit: int, head: bytes) -> None:
        super().__init__(what, limit, head)  # all of them, so that it can be pickled
        self.what = what
        self.limit = limit
        self.head = head

    def __str__(self) -> str:
        return f"longer than {self.limit:,} bytes: {'an event' if self.what == 'event' else 'a line'} of the stream"


class SSEDecoder:
    """Reads the bytes of one connection; the next connection needs a new one.

    Args:
        max_line: bytes that a line may have, without its end.
        max_event: bytes that the joined data of an event may have.

    Attributes:
        last_event_id: the id from which a server would go on. It changes with the empty line that ends an event, also
            of one without data.
        retry: milliseconds to wait before connecting again, as the server said last; None when it said nothing.
            At most 10**15.
        comments: number of comment lines.
        error: set when a limit was passed. What came before it was returned, and nothing more will be.
    """

    __slots__ = (
        "_after_cr",
        "_begun",
        "_data",
        "_ended",
        "_event",
        "_id",
        "_line",
        "_max_event",
        "_max_line",
        "_only_lines",
        "_short",
        "_start",
        "comments",
        "error",
        "last_event_id",
        "retry",
    )

    def __init__(self, *, max_line: int = MAX_LINE, max_event: int = MAX_EVENT) -> None:
        self.last_event_id = ""
        self.retry: int | None = None
        self.comments = 0
        self.error: SSELimitError | None = None
        self._max_line = max_line
        self._max_event = max_event
        self._short = min(max_line - len(b"data: "), max_event)  # data of one line up to this passes neither
        self._only_lines = False  # neither a byte order mark nor the end has to be thought of
        self._start = b""  # of the stream, while it may still become a byte order mark
        self._ended = False
        self._after_cr = False  # an LF that comes now belongs to the CR before it
        self._line = bytearray()  # has not ended yet
        self._begun = False  # lines came after the last empty one
        self._data: bytes | bytearray | None = None  # of the event that has not ended yet; None without a data line
        self._event = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that `chunk` completes. A CR ends its line at once, whatever may follow.

        Raises:
            RuntimeError: after `close`.
        """
        return self._events(chunk, ServerSentEvent)

    def data(self, chunk: bytes) -> list[bytes]:
        """The same without types and ids: only the data of each event, which costs less."""
        return self._events(chunk, None)

    def _events(self, chunk: bytes, make: Callable[[bytes, str, str], Any] | None) -> list[Any]:
        if not self._only_lines:
            chunk = self._lines_of(chunk)
        if not chunk:
            return []
        if self._after_cr:
            self._after_cr = False
            if chunk[0] == _LF:
                chunk = chunk[1:]
        if _CR in chunk:
            self._after_cr = chunk[-1] == _CR
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        # From here on only LF ends a line.
        if self._line:
            if _LF not in chunk:
                self._keep(chunk)
                return []
            self._line += chunk
            chunk = bytes(self._line)
            self._line.clear()
        events: list[Any] = []
        if not self._begun and chunk[:6] == b"data: ":
            # Nearly always: whole events of one data line each. What is not that falls out as a part with an LF.
            if chunk[-2:] == b"\n\n":
                parts = chunk[6:-2].split(b"\n\ndata: ")
                rest = b""
            else:
                parts = chunk[6:].split(b"\n\ndata: ")
                rest = b"data: " + parts.pop()
            last_id, short = self.last_event_id, self._short
            if make is None and len(chunk) <= short and chunk.count(b"\n") == 2 * len(parts):  # no other line ends
                if rest:
                    self._keep(rest)
                return parts
            chunk = rest
            for part in parts:
                if _LF not in part and len(part) <= short:
                    events.append(part if make is None else make(part, "", last_id))
                    continue
                lines = (b"data: " + part).split(b"\n")
                lines.append(b"")
                self._read(lines, events, make)
                if self.error is not None:
                    return events
                last_id = self.last_event_id
            if not chunk:
                return events
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            self._read(lines, events, make)
        if rest and self.error is None:
            self._keep(rest)
        return events

    def close(self) -> None:
        """The stream has ended: an unfinished event is dropped."""
        self._ended = True
        self._stop()

    def _lines_of(self, chunk: bytes) -> bytes:
        """`chunk` without the byte order mark of the stream; nothing while it may be part of one, or after an error."""
        if self._ended:
            raise RuntimeError("the stream has ended, and a new one needs a new decoder")
        if self.error is not None:
            return b""
        chunk = self._start + chunk
        if _MARK.startswith(chunk):
            self._start = chunk
            return b""
        self._start = b""
        self._only_lines = True
        return chunk.removeprefix(_MARK)

    def _keep(self, part: bytes) -> None:
        """More of a line that has not ended."""
        self._line += part
        if len(self._line) > self._max_line:
            self._fail("line", self._max_line, self._line)

    def _read(self, lines: list[bytes], events: list[Any], make: Callable[[bytes, str, str], Any] | None) -> None:
        """Take whole lines in, and add the events that they end."""
        data, longest = self._data, self._max_line
        for line in lines:
            if not line:  # the end of an event
                self.last_event_id = self._id
                if data is not None:
                    data = data if isinstance(data, bytes) else bytes(data)
                    events.append(data if make is None else make(data, self._event, self._id))
                    data = None
                self._event = ""
                continue
            if len(line) > longest:
                self._fail("line", self._max_line, line)
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
            elif name == b"event":
                self._event = value.decode("utf-8", "replace")
            elif name == b"id":
                if 0 not in value:
                    self._id = value.decode("utf-8", "replace")
            elif name == b"retry":
                if value.isdigit():  # of bytes: 0 to 9 only, and at least one
                    self.retry = min(int(value.lstrip(b"0")[:17] or b"0"), LONGEST_RETRY)
            elif not name:
                self.comments += 1
        self._data = data
        self._begun = bool(lines[-1])

    def _fail(self, what: str, limit: int, offender: bytes | bytearray) -> None:
        # No more than the limit itself, so that it does not depend on how the bytes were cut.
        self.error = SSELimitError(what, limit, bytes(offender[: min(HEAD, limit)]))
        self._stop()

    def _stop(self) -> None:
        """Nothing is kept, and no more is taken."""
        self._only_lines = False
        self._start = b""
        self._event = self._id = ""
        self._line = bytearray()
        self._data = None
