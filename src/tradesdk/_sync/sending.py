# Generated from src/tradesdk/_async/sending.py by scripts/unasync.py: change that file instead.
"""The interface of senders: the SDK's own connections, or an httpx client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Mapping

    from .._http.request import Request
    from .._http.retry import RetryBudget, RetryPolicy
    from .._system.clock import Clock
    from .._values.http import Headers, RawResponse, SentHeaders
    from .._values.payment import Payment

T = TypeVar("T")

CLOSED = "this client is closed; make a new one"


class Outgoing(NamedTuple):
    """One request to send. It ends within `deadline` seconds, whatever the `timeout` of a part is."""

    method: str
    target: str  # path and query, quoted, relative to the path of the base URL
    headers: SentHeaders
    body: bytes | None
    timeout: Mapping[str, float | None]  # seconds for `connect`, `read`, `write`, `pool`
    deadline: float
    watch: Callable[[object], None] | None
    is_stream: bool = False


@dataclass
class Handover:
    """A payment that is sent once, and its state so far, however the wait for it ends."""

    payment: Payment
    canceled: list[BaseException]  # the cancellations that came after it was given to the transport
    is_sent: bool = False  # it was given to the transport
    response: RawResponse | None = None


class Answer(Protocol):
    """A response whose body is not read yet."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def coding(self) -> str: ...

    @property
    def connection(self) -> object:
        """The connection to cut off to end a read."""
        ...

    def __iter__(self) -> Iterator[bytes]:
        """The chunks of the body. Iterating ends once the response is closed."""
        ...

    def wait_for(self, seconds: float) -> None:
        """Read the next chunk within `seconds`, in however many pieces it arrives."""
        ...

    def close(self) -> None:
        """Give the connection back. Closing again does nothing."""
        ...


class Sender(Protocol):
    """Sends requests to one base URL. It raises the HTTP library's errors (`_http/transport_errors.py`)."""

    proxy: str
    """The variable that names the proxy; empty without one."""

    @property
    def is_closed(self) -> bool: ...

    def enter(self, timeout: float | None) -> Callable[[], None]:
        """Wait until fewer requests are in progress than the limit. Returns a function to call at the end of this one.

        Raises `TradeError` if this is closed.

        Streams do not count: they last, and a hundred of them would leave no connection for calls.
        """
        ...

    def send(self, outgoing: Outgoing) -> Answer:
        """Send a request and read the headers of the response."""
        ...

    def tells_if_sent(self, error: BaseException) -> bool:
        """Whether the error's class reliably tells if the request was sent."""
        ...

    def close(self) -> None:
        """Close the connections, but not a given client."""
        ...


class Caller(Protocol):
    """The parts of a session that pages and retries use."""

    base_url: str
    clock: Clock
    policy: RetryPolicy
    retry_budget: RetryBudget
    made: deque[str]
    latest: Mapping[str, str]
    creating: list[tuple[object, ...]]

    def call(self, request: Request[T], *, give_up: float | None = None) -> T: ...
    def attempt(self, request: Request[T], give_up: float) -> T: ...
    def read(self, request: Request[T], response: RawResponse) -> T: ...
