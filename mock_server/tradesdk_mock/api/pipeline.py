"""The whole service as one function: a request goes in, a response comes out.

Nothing here waits or uses a socket. The body of a response that takes time has steps: bytes, pauses, waits for an
event, a disconnect. `serving.asgi` and `in_process` take the steps and do the waiting.

`Pipeline.handle` reads from top to bottom: refuse long headers, control, description, match faults, the `HANDLERS` and
settlement in one transaction, rate headers, faults, log. `handlers` has the steps.

Who may write: one request at a time, in the world's transaction, which takes the lock of the database. An error
response is committed like any other; only a crash rolls back. A stream holds no transaction: each of its steps begins
its own when something is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from ..core.errors import ApiError, crashed, invalid
from ..core.messages import Request, Response, error_response
from ..core.rate_limit import anonymous, rate_headers
from ..core.router import Router
from ..faults.rules import Faults
from . import handlers, node
from .context import Context, Endpoint, MarketEndpoint
from .routes import MARKET_ROUTES, ROUTES
from .validation import MAX_BODY

if TYPE_CHECKING:
    from ..state.world import World

Handler = Callable[[Context], None]

HANDLERS: tuple[Handler, ...] = (
    handlers.call_node,
    handlers.require_version,
    handlers.require_post,
    handlers.count_by_address,
    handlers.authenticate,
    handlers.count_by_key,
    handlers.require_endpoint,
    handlers.authorize,
    handlers.parse_body,
    handlers.paywall,
    handlers.bring_up_to_date,
    handlers.call_endpoint,
)
"""The steps of a request to its endpoint, in one transaction. A handler that responds or raises ends it."""

MAX_HEADERS = 64 * 1024
TOO_LONG = "The headers are longer than 64 KiB."


class Control(Protocol):
    """Responds to the paths below `/_mock/`."""

    def respond(self, request: Request) -> Response: ...

    def longest_body(self, path: str, client: str | None) -> int: ...


class Pipeline:
    """The service over a world."""

    def __init__(self, world: World, faults: Faults | None = None, *, control: Control | None = None) -> None:
        self.world = world
        self.faults = faults or Faults(world)
        self._control = control
        self._routes: Router[Mapping[str, Endpoint] | MarketEndpoint | None] = Router(
            {**ROUTES, **MARKET_ROUTES, **dict.fromkeys(node.PATTERNS)}
        )

    def respond(self, request: Request) -> Response:
        """The response to a request."""
        return self.handle(self.open(request))

    def open(self, request: Request) -> Context:
        """Route the request: to the account API, the market-data API, the node of the chain, or nowhere."""
        context = Context(self.world, self.faults, request)
        found = self._routes.find(request.path)
        if found is None:
            return context
        target, params = found
        if target is None:
            context.node = True
        elif isinstance(target, MarketEndpoint):
            if request.market or self.world.gaps.b_port != "another":
                context.market, context.params = target, params
        elif not request.market:
            context.methods, context.params = target, params
            context.endpoint = target.get(request.method)
        return context

    def handle(self, context: Context) -> Response:
        """The response to a routed request. Never raises."""
        request = context.request
        try:
            if sum(len(name) + len(value) for name, value in request.headers) > MAX_HEADERS:
                return self.refusal(TOO_LONG)
            # Neither counted nor logged: control and description are not part of the service.
            if request.path.startswith("/_mock/") and self._control is not None:
                return handlers.completed(self._control.respond(request), self.world.now())
            if request.path == "/openapi.json":
                from . import openapi  # loaded here: most servers never need it

                return handlers.completed(openapi.respond(request), self.world.now())
            if self.faults.active():
                handlers.match_faults(context)
            handlers.require_routed(context)
            if context.response is None:
                self._walk(context)
                handlers.add_rate_headers(context)
            handlers.note_unread_payment(context)
            assert context.response is not None  # noqa: S101 - every way through the pipeline ends in one
            response = handlers.completed(context.response, context.now)
            handlers.apply_faults(context, response)
            handlers.log(context, response)
            return response
        except ApiError as error:
            return handlers.completed(error_response(error, self.world.gaps), self.world.now())
        except Exception:
            refusal = crashed(f"{request.method} {request.path!r}")
            return handlers.completed(error_response(refusal, self.world.gaps), self.world.now())

    def _walk(self, context: Context) -> None:
        """Run `HANDLERS` and settle, in one transaction.

        An error response is a result like any other: the changes before it (a key created at first use, a counted
        request) are kept. Only a crash rolls the transaction back.
        """
        try:
            with self.world.transaction() as context.now:
                try:
                    for handler in HANDLERS:
                        handler(context)
                        if context.response is not None:
                            break
                except ApiError as error:
                    handlers.fail(context, error)
                handlers.settle(context)
        except ApiError as error:
            self._roll_back(context, error)
        except Exception:
            self._roll_back(context, crashed(f"{context.request.method} {context.request.path!r}"))

    def _roll_back(self, context: Context, error: ApiError) -> None:
        """The transaction has failed: nothing is kept, not even the record of a payment."""
        context.payment, context.wrapped = None, False
        context.now = self.world.now()
        handlers.fail(context, error)

    def longest_body(self, path: str, client: str | None) -> int:
        """The most bytes of a request's body that are read."""
        if self._control is None or not path.startswith("/_mock/"):
            return MAX_BODY
        return self._control.longest_body(path, client)

    def refusal(self, message: str) -> Response:
        """The response to invalid HTTP."""
        response = error_response(invalid(message), self.world.gaps)
        now = self.world.now()
        response.headers += rate_headers(anonymous(self.world.gaps, now))
        return handlers.completed(response, now)
