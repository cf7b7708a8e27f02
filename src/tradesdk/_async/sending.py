"""What sends a request: connections of our own, or an httpx client. Nobody else asks which of them it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from weakref import ReferenceType

    from .._values.http import Headers, SentHeaders
    from .concurrency import Place


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request.

    Attributes:
        target: path and query, quoted, without the path of the base URL.
        timeout: seconds for each part: `connect`, `read`, `write`, `pool`.
        deadline: seconds for all of it.
        place: who takes one of the limited places among the connections; None takes none.
        watch: told of every connection that is read from, for whoever may want to cut it off.
        is_stream: whether the answer is a stream of events.
    """

    method: str
    target: str
    headers: SentHeaders
    body: bytes | None
    timeout: dict[str, float | None]
    deadline: float
    place: ReferenceType[Place] | None
    watch: Callable[[object], None] | None
    is_stream: bool = False


class AsyncAnswer(Protocol):
    """An answer whose body is still to be read."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def coding(self) -> str:
        """How the bytes of the body are coded, such as `gzip`."""
        ...

    @property
    def connection(self) -> object:
        """What has to be cut off to end a read."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The body as it comes. Once the answer is closed, it comes to its end."""
        ...

    def wait_for(self, seconds: float) -> None:
        """How long each read waits from now on."""
        ...

    async def aclose(self) -> None:
        """Give the connection back. Doing it again does nothing."""
        ...


class AsyncSender(Protocol):
    """Sends requests to one base URL. It raises the HTTP library's errors (`_http/transport_errors.py`)."""

    @property
    def is_closed(self) -> bool: ...
    async def send(self, outgoing: Outgoing) -> AsyncAnswer:
        """Send it, and read the answer as far as its headers."""
        ...

    def proves_unsent(self, error: Exception) -> bool:
        """Whether an error that is raised before a request is sent can only be raised then."""
        ...

    async def aclose(self) -> None:
        """Close what is ours."""
        ...
