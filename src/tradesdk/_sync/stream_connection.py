# Generated from src/tradesdk/_async/stream_connection.py by scripts/unasync.py: change that file instead.
"""One connection of a live stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._http import log_events
from .._http.request import endpoint, request
from .._http.response import decode_nothing
from .._http.transport_errors import connection_error, transport_error
from .._values.http import Headers, RawResponse
from .._values.text import printable
from ..errors import StreamEndedError, StreamError, TradeError
from .concurrency import Interruptible, LoopBinding, run_to_completion
from .sending import CLOSED, Answer, Outgoing

if TYPE_CHECKING:
    from .._http.wire_logging import LoggedExchange
    from .session import Session

_LONGEST_ID = 1_024  # the id is only a hint: gaps are filled from the history
_AT_ONCE = 16 * 1024  # bytes; larger reads trigger the garbage collector: a third of the CPU time of a signal


class StreamConnection:
    def __init__(self, session: Session, interruptible: Interruptible, chain: int) -> None:
        self._session = session
        self._interruptible = interruptible
        self._request = request("GET", endpoint("signals", "stream"), decode_nothing, query={"chain": chain})
        self.url = session.base_url + self._request.target
        self._answer: Answer | None = None
        self.home = LoopBinding()
        self._chunks: Any = None  # a generator, which has to be closed
        self._pieces: Iterator[bytes] = iter(())  # the pieces of the last chunk

    def open(self, give_up: float, last_event_id: str) -> Headers:
        """Read the head of the response, and a refusal's body, until `give_up`, a monotonic time."""
        session = self._session
        if session.sender.is_closed:
            raise TradeError(CLOSED)
        # With gzip, the service's buffers would delay events.
        headers = session.header_list(None, accept=b"text/event-stream", coding=b"identity")
        headers.append((b"Cache-Control", b"no-store"))
        if last_event_id.isprintable() and 0 < len(last_event_id.strip()) == len(last_event_id) <= _LONGEST_ID:
            headers.append((b"Last-Event-ID", last_event_id.encode()))
        if (listener := log_events.listener) is not None:
            headers += listener.headers()
        left = give_up - session.clock.monotonic()
        outgoing = Outgoing(
            "GET",
            self._request.target,
            headers,
            None,
            timeout={**session.parts, "read": None},
            deadline=left,
            watch=self._interruptible.watch,
            is_stream=True,
        )
        exchange, handled = session.log(outgoing), sys.exception()
        try:
            answer = session.sender.send(outgoing)
        except Exception as error:
            lost = connection_error(error, "GET", self.url, proxy=session.sender.proxy, handled=handled)
            if exchange is not None:
                exchange.failed(lost.message)
            raise lost from lost.__cause__
        self._answer = answer
        self.home.check()
        self.watch()
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        coding = answer.coding.strip().lower()
        if answer.status != 200 or kind != "text/event-stream" or coding not in ("", "identity"):
            self._refuse(answer, kind, coding, exchange, give_up)
        elif exchange is not None:
            exchange.answered(200, answer.headers, None)  # events are not logged
        self._chunks = iter(answer)
        return answer.headers

    def _refuse(
        self, incoming: Answer, kind: str, coding: str, exchange: LoggedExchange | None, give_up: float
    ) -> None:
        session = self._session
        status = incoming.status
        content = b""
        try:
            if status != 204:
                content = (session.receive(incoming, give_up)).content()
        except Exception as error:
            if not transport_error(error):
                raise  # else the status is enough, even if the body is cut short
        finally:
            self.close()
        answer = RawResponse(status, incoming.headers, content)
        if session.key is not None:
            answer = session.key.without(answer)
            content = answer.content  # a traceback may show the content
        if exchange is not None:
            exchange.answered(status, answer.headers, answer.content)
        if status == 204:
            raise StreamEndedError(
                "the service ended the stream for good (204)", method="GET", url=self.url, response=answer
            )
        if not 200 <= status < 300:
            raise session.refusal(self._request, answer)
        reason = f"its content type is {printable(kind, 60) or 'missing'}, not text/event-stream"
        if kind == "text/event-stream":
            encoding = f"its content encoding is {printable(coding, 60)}, and none is accepted"
            reason = encoding if status == 200 else "its status is not 200"
        raise StreamError(
            f"the response ({status}) is not a stream of events: {reason}", method="GET", url=self.url, response=answer
        )

    def watch(self) -> None:
        """Let closing the stream cut off this connection again: reading the history may have replaced it."""
        self._interruptible.watch(None if self._answer is None else self._answer.connection)

    def read(self, patience: float) -> bytes | None:
        """The next bytes; None at the end. `patience`: seconds to wait for them."""
        for piece in self._pieces:
            return piece
        if self._answer is not None:
            self._answer.wait_for(patience)
        try:
            chunk: bytes | None = next(self._chunks, None)
        except Exception as error:
            lost = connection_error(error, "GET", self.url)
            raise lost from lost.__cause__
        if chunk is None or len(chunk) <= _AT_ONCE:
            return chunk
        self._pieces = (chunk[start : start + _AT_ONCE] for start in range(0, len(chunk), _AT_ONCE))
        return next(self._pieces)

    def close(self) -> None:
        if self._answer is not None:
            self.home.check()
        answer, self._answer = self._answer, None
        chunks, self._chunks = self._chunks, None
        self._pieces = iter(())
        self.watch()
        if answer is not None:
            run_to_completion(lambda: self._close(answer, chunks))

    def _close(self, answer: Answer, chunks: Any) -> None:
        answer.close()
        if chunks is not None:
            for _ in chunks:  # an unfinished generator would be cleaned up too late
                pass
