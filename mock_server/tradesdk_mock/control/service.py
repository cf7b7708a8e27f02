"""MockService: the whole service as an object, without a socket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from ..core.clock import MockClock
from ..core.gap_options import GapOptions
from ..faults.rules import Faults
from ..state.world import World
from .operations import Operations

if TYPE_CHECKING:
    from ..api.pipeline import Pipeline
    from ..in_process.httpx_transport import MockTransport

MARKET_PORT = 8402
"""The port of market data for clients of `transport`, if it has its own."""


class MockService(Operations):
    """The service in this process, without a socket: clients use its `transport`.

        with MockService() as mock, httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
            http.get("/v1/account", headers={"Authorization": "Bearer mock_full_me"})

    Keys of the form `mock_full_NAME` and `mock_read_NAME` need no `create_key`: the first use of one makes the tenant
    NAME, on the plan pro, or on the one in the key, as in `mock_full_free_NAME`. An existing tenant keeps its plan.

    Args:
        seed: decides every id, price and address. By default the state file's, or 7.
        db: a file that keeps the state, seed, clock and gap options between runs. By default all is in memory.
        gaps: what to do where the specification is silent: all options as `GapOptions`, or some in a mapping such as
            `{"order": "oldest"}`. Others are the state file's, or defaults.
        clock: the service's clock. Clients that share it wait in its time.
        signals: `live`: the market publishes signals; `scripted`: only `emit_signal` does. By default the state
            file's, or `live`. A new value also applies to other processes that use the file.
        first_within: a stream gets its first signal within this many seconds; None leaves that to the market.
        allow_remote_control: the control API accepts requests from other machines too.

    Raises:
        MockServerError: the state file can't be used, or was made with another seed.
        ValueError: an unknown gap option, or an invalid value.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        db: str | os.PathLike[str] | None = None,
        gaps: GapOptions | Mapping[str, object] | None = None,
        clock: MockClock | None = None,
        signals: Literal["live", "scripted"] | None = None,
        first_within: float | None = None,
        allow_remote_control: bool = False,
    ) -> None:
        self.world = World(seed=seed, db=db, gaps=gaps, clock=clock, market=signals, first_within=first_within)
        self._faults = Faults(self.world)
        self._allow_remote_control = allow_remote_control
        self._pipeline: Pipeline | None = None

    @property
    def pipeline(self) -> Pipeline:
        """The service as a function from a request to a response."""
        if self._pipeline is None:
            # Loaded here: reading a state file needs none of the endpoints.
            from ..api.pipeline import Pipeline
            from .http import ControlApi

            self._pipeline = Pipeline(
                self.world, self._faults, control=ControlApi(self, allow_remote=self._allow_remote_control)
            )
        return self._pipeline

    def transport(self) -> MockTransport:
        """A transport for `httpx.Client` and `httpx.AsyncClient` alike, streams and faults included.

        Any host works; clients accept `url` and `market_url` without https. A read that would have to wait moves
        a frozen clock to the next event, as its `sleep` does.
        """
        from ..in_process.httpx_transport import MockTransport

        return MockTransport(self.pipeline, self._own_market_port)

    def _own_market_port(self) -> int:
        """Where market data is served under the gap option `b_port`."""
        return MARKET_PORT

    @property
    def url(self) -> str:
        """A URL for clients of `transport`, without the version prefix."""
        return "http://localhost"

    @property
    def market_url(self) -> str:
        """The URL of the market data: `url`, unless the gap option `b_port` gives it its own port."""
        return f"{self.url}:{MARKET_PORT}" if self.world.gaps.b_port == "another" else self.url

    @property
    def rpc_url(self) -> str:
        """The URL of a node of the chain on which payments settle. `/NAME` after it is another node."""
        return f"{self.url}/rpc"

    def close(self) -> None:
        """Release the state; open streams end. A second call does nothing."""
        self.world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.world.seed})"

    def control_response(self, method: str, path: str, content: bytes = b"") -> tuple[int, bytes]:
        """The status and body of the control API's response to `method /_mock/{path}` with this JSON."""
        from urllib.parse import unquote

        from ..core.messages import Request

        target, _, query = path.partition("?")
        headers = [(b"content-type", b"application/json")]
        response = self.pipeline.respond(
            Request(method, f"/_mock/{unquote(target)}", query.encode(), headers, content, client="127.0.0.1")
        )
        assert isinstance(response.body, bytes)  # noqa: S101 - its responses are never streams
        return response.status, response.body
