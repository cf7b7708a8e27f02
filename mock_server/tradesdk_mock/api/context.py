"""Endpoints, and the context of one request: what the steps of the pipeline read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..core.checks import quoted
from ..core.errors import ApiError, missing
from ..core.messages import NEW_FIELD, Request, Response
from ..core.rate_limit import Verdict
from ..faults.rules import Faults, MatchedFaults
from ..market.tokens import Token
from ..payments.header import Payment
from ..state.tenants import Principal
from ..state.world import World
from .market_requests import MarketQuery, Reader
from .validation import Query, json_body

if TYPE_CHECKING:
    from ..payments.requirements import PaidRequest

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a path of the account API.

    Attributes:
        needs: what the key must allow. `account` is a read whose scope isn't documented (a gap option).
        live: a stream: outside the rate limit, and not counted.
        trading: it shows or changes what agents do: they are brought up to date first.
        signals: it shows signals: they are published up to now first.
        option: it exists only under the gap option `no_routes=routes`.
    """

    handler: Callable[[Context], Response]
    needs: Literal["read", "account", "write"] = "read"
    live: bool = False
    trading: bool = False
    signals: bool = False
    option: bool = False


@dataclass(frozen=True, slots=True)
class MarketEndpoint:
    """A path of the market-data API.

    Attributes:
        read: parses the body.
        handler: returns the `data` of the response.
        text: the data for sale, in a few words.
        price: in micro-dollars; 0 is free.
        each: the price is per token.
        trading: it shows what agents do: they are brought up to date first.
        signals: it shows signals: they are published up to now first.
    """

    read: Reader
    handler: Callable[[MarketCall], Record]
    text: str
    price: int = 0
    each: bool = False
    trading: bool = False
    signals: bool = False


Routes = dict[str, dict[str, Endpoint]]
MarketRoutes = dict[str, MarketEndpoint]


class Call:
    """What an endpoint is called with."""

    world: World

    def with_unknown(self, record: Record) -> Record:
        """A record as sent: under the gap option `unknown_values`, with an unknown field, status and signal."""
        if self.world.gaps.unknown_values == "on":
            record.update(NEW_FIELD)
            if "status" in record:
                record["status"] = "hibernating" if "wallet_id" in record else "settling"
            if "signal" in record:
                record["signal"] = "HOLD"
        return record


@dataclass(slots=True)
class Context(Call):
    """One request on its way through the pipeline; an endpoint of the account API is called with it.

    Attributes:
        now: the service's time, read when its transaction has begun.
        params: the values of the placeholders in the path's pattern, such as `/v1/agents/{agent_id}`.
        methods: the endpoints of a path of the account API, by method; `endpoint` is the one of this request.
        market: the endpoint of a path of the market-data API.
        node: the path is that of the node of the chain.
        matched: the fault `rules` that apply; `faults` has the kinds of those that changed something.
        principal: the owner of the key, once authenticated; `tenant` is theirs.
        verdict: the rate limit's, once counted.
        market_query: the parsed body of a request for market data, or why it can't be parsed.
        payment: the payment in the headers, once read; `paid` once the paywall has accepted it.
        wrapped: failures have the body of the market-data API.
        response, error: the response so far, and its error code.
    """

    world: World
    rules: Faults
    request: Request
    now: float = 0.0
    params: Mapping[str, str] = field(default_factory=dict)
    methods: Mapping[str, Endpoint] = field(default_factory=dict)
    endpoint: Endpoint | None = None
    market: MarketEndpoint | None = None
    node: bool = False
    matched: MatchedFaults | None = None
    faults: tuple[str, ...] = ()
    principal: Principal | None = None
    tenant: str = ""
    verdict: Verdict | None = None
    market_query: MarketQuery | ApiError | None = None
    payment: Payment | None = None
    paid: PaidRequest | None = None
    wrapped: bool = False
    response: Response | None = None
    error: str | None = None

    # For endpoints.

    @property
    def caller(self) -> Principal:
        """The owner of the key."""
        assert self.principal is not None  # noqa: S101 - endpoints are called for authenticated requests only
        return self.principal

    def owned(self, kind: str, columns: Sequence[str]) -> Record:
        """The record that the path's `{kind}_id` names; 404 when the caller has none with this id."""
        ident = self.params[f"{kind}_id"]
        found = self.world.store.rows(columns, f"{kind}s WHERE id = ? AND tenant = ?", (ident, self.tenant))
        if not found:
            raise missing(kind, ident)
        return found[0]

    def query(self) -> Query:
        return Query(self.request.query, self.world.gaps)

    def json(self) -> Record:
        """The JSON object in the body; 400 when it isn't one."""
        return json_body(self.request.headers, self.request.content)


@dataclass(frozen=True, slots=True)
class MarketCall(Call):
    """A parsed request for market data, paid if it has to be.

    Attributes:
        now: the service's time, the same for everything in the response.
    """

    world: World
    query: MarketQuery
    now: float

    def tokens(self) -> list[tuple[Token, int]]:
        """The tokens, and how many signals of each. 404 when one is unknown or, by gap option, when all are."""
        named = self.query.tokens
        found = [(each.token, each.limit) for each in named if each.token is not None]
        if len(found) < len(named) and not (found and self.world.gaps.unknown_token == "partial"):  # noqa: S105 - a gap option
            unknown = next(each for each in named if each.token is None)
            raise ApiError(404, "not_found", f"No token {quoted(unknown.identifier)} on Base.")
        return found
