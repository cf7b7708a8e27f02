"""One connection of a live stream."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import httpx

from .._http.request import endpoint, request
from .._http.response import decode_nothing
from .._http.wire_logging import LoggedExchange, wire
from .._httpx import HTTP_ERRORS, connection_error, disobey, headers_of, obey, root_cause
from .._stream.events import Gzip
from .._values.http import Headers, RawResponse
from .._values.text import printable
from ..errors import APIConnectionError, StreamEndedError, StreamError, TradeError
from .concurrency import AsyncInterruptible, run_to_completion

if TYPE_CHECKING:
    from .session import AsyncSession

_CODINGS = ("", "identity", "gzip", "x-gzip")
_LONGEST_ID = 1_024  # it is a hint only: the history closes every gap
_ERROR_BODY = 30.0  # seconds for the body of an error


class AsyncStreamConnection:
    """An open connection, or none yet."""

    def __init__(self, session: AsyncSession, gate: AsyncInterruptible, chain: int) -> None:
        self._session = session
        self._interruptible = gate
        self._query = {"chain": chain}
        self._request = request("GET", endpoint("signals", "stream"), decode_nothing, query=self._query)
        self.url = session.base_url + self._request.target
        self._opening: Any = None
        self._reading: object = None
        self._timeouts: dict[str, float | None] = {}  # the request's own: who reads for it looks there
        self._chunks: Any = None  # a generator, which has to be closed
        self._coding: Gzip | None = None
        self._pieces: Iterator[bytes] = iter(())

    async def open(self, read_timeout: float, last_event_id: str) -> Headers:
        """Open it; the headers of the answer.

        Raises:
            APIConnectionError: no answer.
            APIStatusError: an answer that is no success.
            StreamError: a success that is no stream.
        """
        from httpx_sse import aconnect_sse  # only where there is a stream

        session = self._session
        if session.http.is_closed:
            raise TradeError("this client is closed; make another one")
        headers: dict[str, Any] = {name.decode(): value for name, value in session.header_list(None)}
        headers["Accept-Encoding"] = "identity"  # else the service's own buffers would hold events back
        if last_event_id.isprintable() and 0 < len(last_event_id.strip()) == len(last_event_id) <= _LONGEST_ID:
            headers["Last-Event-ID"] = last_event_id.encode()
        timeout = session.timeout
        looked: LoggedExchange | None = None
        if wire.level:
            shown = httpx.Headers({**headers, "Accept": "text/event-stream"})
            looked = LoggedExchange("GET", self.url, shown.multi_items(), None, session.clock.monotonic)
        opening = aconnect_sse(
            session.http,
            "GET",
            session.base_url + self._request.path,
            params=self._query,  # default parameters of an injected client would replace those in the URL
            headers=headers,
            timeout=httpx.Timeout(connect=timeout.connect, read=read_timeout, write=timeout.write, pool=timeout.pool),
            auth=None,
            follow_redirects=False,
            extensions={"trace": self._interruptible.trace}
            if session.injected
            else {"watch": self._interruptible.watch},
        )
        try:
            response = (await opening.__aenter__()).response
        except httpx.HTTPStatusError as error:  # by a hook of an injected client: the status is what counts
            answer = RawResponse(error.response.status_code, headers_of(error.response), b"")
            raise session.refusal(self._request, answer) from None
        except HTTP_ERRORS as error:
            lost = connection_error(error, "GET", self.url)
            if looked is not None:
                looked.failed(lost.message)
            raise lost from root_cause(error)
        self._opening = opening
        self._timeouts = response.request.extensions["timeout"]
        stream = response.extensions.get("network_stream")
        if stream is not None and response.http_version.startswith("HTTP/1"):  # of HTTP/2, other calls read from it
            obey(stream, self._timeouts)
        self._reading = stream or response
        self.watch()
        found = headers_of(response)
        kind = found.get("content-type", "").partition(";")[0].strip().lower()
        coding = found.get("content-encoding", "").strip().lower()
        if response.status_code != 200 or kind != "text/event-stream" or coding not in _CODINGS:
            await self._refuse(response, kind, coding, looked)
        elif looked is not None:
            looked.answered(200, found, None)  # what comes on it is for whoever reads it
        self._coding = Gzip() if "gzip" in coding else None
        self._chunks = aiter(
            cast(httpx.AsyncByteStream, response.stream)
        )  # bytes as they come; what httpx puts around them is of no use here
        return found

    async def _refuse(self, incoming: httpx.Response, kind: str, coding: str, looked: LoggedExchange | None) -> None:
        session = self._session
        status = incoming.status_code
        content = b""
        try:
            if status != 204:
                content = (await session.receive(incoming, session.clock.monotonic() + _ERROR_BODY))[1].content()
        except HTTP_ERRORS as error:
            if not 200 <= status < 300:
                raise connection_error(error, "GET", self.url) from root_cause(error)
        finally:
            await self.aclose()
        answer = RawResponse(status, headers_of(incoming), content)
        if looked is not None:
            looked.answered(status, answer.headers, content)
        if status == 204:
            raise StreamEndedError(
                "the service ended the stream for good (204)", method="GET", url=self.url, response=answer
            )
        if not 200 <= status < 300:
            raise session.refusal(self._request, answer)
        what = f"it is {printable(kind, 60) or 'of no type'}, not text/event-stream"
        if kind == "text/event-stream":
            what = (
                f"it is coded as {printable(coding, 60)}, and no coding was asked for" if status == 200 else "not 200"
            )
        raise StreamError(
            f"the answer ({status}) is no stream of events: {what}", method="GET", url=self.url, response=answer
        )

    def watch(self) -> None:
        """Whoever cuts off a read cuts off this one: others may have read in the meantime."""
        self._interruptible.watch(self._reading)

    async def read(self, patience: float) -> bytes | None:
        """What comes next; None at the end. `patience`: seconds to wait for it.

        Raises:
            APIConnectionError: it broke off. `APITimeoutError`: nothing came.
        """
        self._timeouts["read"] = patience
        try:
            if self._coding is None:
                return await anext(self._chunks, None)
            for piece in self._pieces:
                return piece
            chunk = await anext(self._chunks, None)
            if chunk is None:
                return None
            self._pieces = self._coding.undo(chunk)
            for piece in self._pieces:
                return piece
            return b""  # nothing yet: whoever waited here for more would not see that nothing is alive
        except zlib.error:
            raise APIConnectionError(
                "the gzip coding of the stream is damaged", method="GET", url=self.url, sent=True
            ) from None
        except HTTP_ERRORS as error:
            raise connection_error(error, "GET", self.url) from root_cause(error)

    async def aclose(self) -> None:
        """Close it. Doing it again does nothing."""
        disobey(self._reading)
        opening, self._opening = self._opening, None
        chunks, self._chunks = self._chunks, None
        self._pieces = iter(())
        self._reading = None
        self.watch()
        if opening is not None:
            await run_to_completion(lambda: self._close(opening, chunks))

    async def _close(self, opening: Any, chunks: Any) -> None:
        await opening.__aexit__(None, None, None)
        if chunks is not None and self._session.injected:
            await chunks.aclose()
        elif chunks is not None:
            with contextlib.suppress(*HTTP_ERRORS):
                async for _ in chunks:  # closed early, it comes to its end: no generator is left to be cleaned up
                    pass
