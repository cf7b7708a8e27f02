"""Endpoints of market data: path, price, arguments and response of each. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import islice
from typing import Any, Generic, TypeVar, cast, get_args

from ._http.arguments import moment, optional_whole
from ._http.request import Request, encode_body
from ._http.response import decode_raw, validated
from ._http.retry import Operation
from ._values.details import TokenDetails
from ._values.http import RawResponse, json_bytes
from ._values.text import display, printable, real, without_keys
from .errors import APIResponseError, InvalidArgumentError, PaymentRefusedError
from .models.market import (
    AggregateMetrics,
    MarketAnswer,
    MarketModel,
    SignalType,
    SortBy,
    SupportedToken,
    SupportedTokens,
    TokenAvgPrices,
    TokenPrice,
    TokenResults,
    TokenSignals,
    TokenWinRate,
    TopPerformers,
    iso_moment,
)

T = TypeVar("T")
D = TypeVar("D", bound=MarketModel)

MAX_BATCH = 5
_TOKENS = 'write tokens=["ETH", "BRETT"]'
_MORE = f"pass {MAX_BATCH} at a time, or use client.batches, which takes more"
MAX_SIGNALS = 100
MAX_TOP = 300
MAX_SUPPORTED = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED = 5
"""The most unknown tokens that an error names."""
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True)
class TokenQuery:
    """A token and the number of signals to return for it.

    Attributes:
        identifier: the token's address on Base, its id in a coin registry, or its symbol; in any case.
        limit: number of signals, 1 to 100; None for the limit of the call.
    """

    identifier: str
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class MarketRequest(Generic[T]):
    """A checked request for market data.

    Attributes:
        price: its published price in micro-dollars; 0 when it is free.
        tokens: how many; None when the price does not depend on it.
        to_look_up: symbols to find in the service's list before anything is paid.
    """

    request: Request[T]
    price: int
    tokens: int | None = None
    to_look_up: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[D]):
    """An endpoint of market data, and its price in micro-dollars; 0 when it is free."""

    path: str
    price: int
    answer: type[D]
    per_token: bool = False

    def request(self, body: Mapping[str, Any], tokens: Sequence[TokenQuery] | None = None) -> MarketRequest[D]:
        """A request with `body`, without its None values, and with `tokens`."""
        content = {key: value for key, value in body.items() if value is not None}
        if tokens is not None:
            content = {"tokens": [_item(one) for one in tokens], **content}
        decode = partial(decode_answer, self.answer)
        request = Request("POST", self.path, decode, body=json_bytes(content), operation=Operation.QUERY)
        return self.priced(request, tokens or ())

    def batch(self, tokens: Sequence[str | TokenQuery]) -> MarketRequest[D]:
        """A request for 1 to 5 tokens, without anything else."""
        return self.request({}, one_batch(tokens))

    def priced(self, request: Request[T], tokens: Sequence[TokenQuery]) -> MarketRequest[T]:
        price = self.price * (len(tokens) if self.per_token else 1)
        return MarketRequest(request, price, len(tokens) or None, tuple(one.identifier for one in tokens))


_TOKEN_SIGNALS = Endpoint("/v1/token-signals", 50_000, TokenResults[TokenSignals], per_token=True)
_SIGNAL_HISTORY = Endpoint("/v1/signal-history", 50_000, TokenResults[TokenSignals], per_token=True)
_TOKEN_PRICES = Endpoint("/v1/token-prices", 30_000, TokenResults[TokenPrice], per_token=True)
_WIN_RATES = Endpoint("/v1/token-win-rate", 30_000, TokenResults[TokenWinRate], per_token=True)
_AVG_PRICES = Endpoint("/v1/token-avg-prices", 20_000, TokenResults[TokenAvgPrices], per_token=True)
_TOP_PERFORMERS = Endpoint("/v1/top-performers", 60_000, TopPerformers)
_METRICS = Endpoint("/v1/aggregate-metrics", 60_000, AggregateMetrics)
_SUPPORTED_TOKENS = Endpoint("/v1/supported-tokens", 0, SupportedTokens)

ENDPOINTS: Mapping[str, Endpoint[Any]] = {
    one.path: one
    for one in (
        _TOKEN_SIGNALS,
        _SIGNAL_HISTORY,
        _TOKEN_PRICES,
        _WIN_RATES,
        _AVG_PRICES,
        _TOP_PERFORMERS,
        _METRICS,
        _SUPPORTED_TOKENS,
    )
}
"""Endpoints by path."""


def token_signals(
    tokens: Sequence[str | TokenQuery], limit: int | None = None
) -> MarketRequest[TokenResults[TokenSignals]]:
    """The newest signals of 1 to 5 tokens; `limit` applies to tokens without their own."""
    limit = optional_whole("limit", limit, 1, MAX_SIGNALS)
    queries = one_batch(tokens, limits=True)
    queries = [one if one.limit is not None else TokenQuery(one.identifier, limit) for one in queries]
    return _TOKEN_SIGNALS.request({}, queries)


def signal_history(
    tokens: Sequence[str | TokenQuery],
    since: datetime | float | None = None,
    until: datetime | float | None = None,
    signal_type: SignalType | None = None,
) -> MarketRequest[TokenResults[TokenSignals]]:
    return _SIGNAL_HISTORY.request(history_filter(since, until, signal_type), one_batch(tokens))


token_prices, token_win_rate, token_avg_prices = _TOKEN_PRICES.batch, _WIN_RATES.batch, _AVG_PRICES.batch


def top_performers(sort_by: SortBy, limit: int | None = None) -> MarketRequest[TopPerformers]:
    body = {
        "sortBy": _one_of("sort_by", sort_by, get_args(SortBy)),
        "limit": optional_whole("limit", limit, 1, MAX_TOP),
    }
    return _TOP_PERFORMERS.request(body)


def aggregate_metrics() -> MarketRequest[AggregateMetrics]:
    return _METRICS.request({})


def supported_tokens(limit: int | None = None) -> MarketRequest[SupportedTokens]:
    return _SUPPORTED_TOKENS.request({"limit": optional_whole("limit", limit, 1, MAX_SUPPORTED)})


def raw(path: str, body: Mapping[str, Any] | None = None) -> MarketRequest[RawResponse]:
    """A request with any body for an endpoint of market data. The response is checked as usual, and not changed."""
    if not isinstance(path, str) or path not in ENDPOINTS:
        message = f"{display(path)} has no published price; these have: {', '.join(ENDPOINTS)}"
        raise InvalidArgumentError(message, hint='write path="/v1/token-prices"')
    if body is not None and not isinstance(body, Mapping):
        message = f"json must be an object, not {type(body).__name__}"
        raise InvalidArgumentError(message, hint='write json={"tokens": [{"identifier": "ETH"}]}')
    content = dict(body or {})
    queries: list[TokenQuery] = []
    if ENDPOINTS[path].per_token:  # count them, and refuse duplicates: each is paid for
        named = _several(content.get("tokens", ()))
        if not all(isinstance(one, Mapping) for one in named):
            raise InvalidArgumentError("tokens must be a list of objects", hint='write [{"identifier": "ETH"}]')
        queries = one_batch([one.get("identifier") for one in cast("Iterable[Any]", named)])

    def decode(method: str, url: str, response: RawResponse) -> RawResponse:
        decode_by_path(path, method, url, response)
        return decode_raw(method, url, response)

    request = Request("POST", path, decode, body=encode_body(content), operation=Operation.QUERY)
    return ENDPOINTS[path].priced(request, queries)


def _item(token: TokenQuery) -> dict[str, Any]:
    return {"identifier": token.identifier} | ({} if token.limit is None else {"limit": token.limit})


# Checks of arguments.


def one_batch(tokens: Iterable[str | TokenQuery], *, limits: bool = False) -> list[TokenQuery]:
    """1 to 5 tokens, without duplicates; with `limits`, each may have its own limit."""
    given = _several(tokens)
    queries = [_token(index, one, limits) for index, one in enumerate(islice(given, MAX_BATCH + 1))]
    if not queries:
        raise InvalidArgumentError(f"tokens must be a list of 1 to {MAX_BATCH} tokens; it is empty", hint=_TOKENS)
    if len(queries) > MAX_BATCH:
        number = str(len(given)) if isinstance(given, Sized) else f"more than {MAX_BATCH}"
        raise InvalidArgumentError(f"tokens must be 1 to {MAX_BATCH} tokens, not {number}", hint=_MORE)
    seen: dict[str, TokenQuery] = {}
    for one in queries:
        earlier = seen.setdefault(one.identifier.casefold(), one)
        if earlier is not one:
            raise InvalidArgumentError(
                f"tokens has the same token twice: {display(earlier.identifier)} and {display(one.identifier)}",
                hint="name each token once",
            )
    return queries


def distinct(tokens: Iterable[str | TokenQuery], *, limits: bool = False) -> list[TokenQuery]:
    """Tokens in any number, without duplicates, in their first order."""
    seen: dict[str, TokenQuery] = {}
    for index, given in enumerate(_several(tokens)):
        one = _token(index, given, limits)
        earlier = seen.setdefault(one.identifier.casefold(), one)
        if earlier.limit != one.limit:
            raise InvalidArgumentError(
                f"tokens has {display(one.identifier)} twice, with different limits", hint="name each token once"
            )
    return list(seen.values())


def _several(tokens: Iterable[str | TokenQuery]) -> Iterable[object]:
    if isinstance(tokens, str):
        raise InvalidArgumentError("tokens must be a list of tokens", hint=f"write [{display(tokens)}]")
    if isinstance(tokens, bytes | bytearray | Mapping) or not isinstance(tokens, Iterable):
        raise InvalidArgumentError(f"tokens must be a list of tokens, not {type(tokens).__name__}", hint=_TOKENS)
    return tokens


def _token(index: int, given: object, limits: bool) -> TokenQuery:
    at = f"tokens[{index}]"
    name, limit = given, None
    if isinstance(given, TokenQuery):
        name, limit = given.identifier, optional_whole(f"{at}.limit", given.limit, 1, MAX_SIGNALS)
    if limit is not None and not limits:
        raise InvalidArgumentError(f"{at} has a limit, which only token_signals takes", hint="leave the limit out")
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{at} must be a string, not {type(name).__name__}", hint=_TOKENS)
    identifier = name.strip()
    if not identifier:
        raise InvalidArgumentError(f"{at} must not be empty", hint=_TOKENS)
    if len(identifier) > 256:
        raise InvalidArgumentError(
            f"{at} is {len(identifier)} characters long; a token's name has at most 256", hint=_TOKENS
        )
    if 48 <= len(identifier) < 80 and without_keys(identifier) == "****":  # do not send a key or store it in the ledger
        raise InvalidArgumentError(
            f"{at} is too long for a symbol or an address, and may be a private key", hint=_TOKENS
        )
    if "," in identifier:
        raise InvalidArgumentError(f"{at} has a comma: {printable(identifier, 60)}", hint=_TOKENS)
    if not identifier.isprintable():  # also refuses lone surrogates
        raise InvalidArgumentError(
            f"{at} must not contain control characters: {printable(identifier, 60)}", hint=_TOKENS
        )
    return TokenQuery(identifier, limit)


class TokenNames:
    """Symbols and names in the service's free list, which has at most 500; `total`: number of all tokens."""

    def __init__(self, tokens: Sequence[SupportedToken], total: int) -> None:
        self._tokens, self._total = tokens, total
        ids = (token.name for token in tokens if " " not in token.name)  # one-word names are usually ids
        self._known = {name.casefold() for name in (*ids, *(token.symbol for token in tokens))}

    def unknown(self, identifiers: Iterable[str]) -> list[str]:
        """Identifiers that are not listed. Addresses pass, and so do ids of coin registries (with a hyphen)."""
        return [
            one
            for one in identifiers
            if one.casefold() not in self._known and "-" not in one and _ADDRESS.fullmatch(one) is None
        ]

    def refusal(self, unknown: Sequence[str]) -> PaymentRefusedError:
        """The refusal of identifiers that are not listed, with symbols that resemble them."""
        from difflib import get_close_matches

        symbols = {name.casefold(): token.symbol for token in self._tokens for name in (token.name, token.symbol)}
        names = [name.casefold() for name in unknown[:_NAMED]]
        near = [symbols[one] for name in names for one in get_close_matches(name, symbols, 3, 0.6)]
        suggestions = tuple(dict.fromkeys(printable(one, 20) for one in near))
        meant = f"did you mean {' or '.join(suggestions)}? " if suggestions else ""
        are = "is" if len(unknown) == 1 else "are"
        listed = len(self._tokens)
        which = f"{listed}" if listed >= self._total else f"first {listed} of {self._total}"
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        named = ", ".join(display(without_keys(one)) for one in unknown[:_NAMED])
        return PaymentRefusedError(
            f"{named}{more} {are} not among the {which} tokens that the service lists",
            code="unknown_token",
            hint=f"{meant}a token that is not listed is bought by its address, or with check_tokens=False",
            details=TokenDetails(unknown=tuple(map(without_keys, unknown)), suggestions=suggestions),
        )


def history_filter(
    since: datetime | float | None, until: datetime | float | None, signal_type: SignalType | None
) -> dict[str, Any]:
    first, last = _instant("since", since), _instant("until", until)
    if first is not None and last is not None and first > last:
        raise InvalidArgumentError(
            "since is later than until", hint="set since to the earlier time, and until to the later"
        )
    return {
        "startDate": first and iso_moment(first),
        "endDate": last and iso_moment(last),
        "signalType": None if signal_type is None else _one_of("signal_type", signal_type, get_args(SignalType)),
    }


def _instant(name: str, value: datetime | float | None) -> datetime | None:
    if value is None:
        return None
    moment(name, value)  # refuses other types and naive datetimes
    try:
        return value.astimezone(UTC) if isinstance(value, datetime) else _EPOCH + timedelta(seconds=real(value))
    except OverflowError:
        hint = f"set {name} to a time in the years 1 to 9999"
        raise InvalidArgumentError(f"{name} is outside the years 1 to 9999 in UTC", hint=hint) from None


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        message = f"{name} must be one of {', '.join(known)}, not {display(value)}"
        raise InvalidArgumentError(message, hint=f'write {name}="{known[0]}"')
    return str(value)


# Responses.


def token_warnings(path: str, body: bytes, data: object) -> tuple[str, ...]:
    """How the tokens of a response differ from those of the request: others, or too few. It is delivered all the same.

    A text that may be the id of a coin registry (in small letters, and not an address) fits any token.
    """
    if not ENDPOINTS[path].per_token:
        return ()
    if isinstance(data, RawResponse):
        data = decode_by_path(path, "POST", path, data)
    results = list[Any](getattr(data, "results", ()))
    identifiers = [str(one["identifier"]).strip() for one in json.loads(body)["tokens"]]
    left, others = {one.casefold(): one for one in identifiers}, list[str]()
    for one in results:
        symbol: str = one.symbol if hasattr(one, "symbol") else one.token_symbol
        if all(left.pop(name.casefold(), None) is None for name in (one.token_address, symbol)):
            others.append(symbol)
    wanted = [one for one in left.values() if one != one.lower() or _ADDRESS.fullmatch(one)]
    if others and (wanted or len(others) > len(left)):
        return (f"the response has {_named(others)}, not only {_named(identifiers)}",)
    if len(results) < len(identifiers):
        few = len(results) or "none"
        return (f"the response has {few} of the {len(identifiers)} tokens that were bought: {_named(identifiers)}",)
    return ()


def _named(tokens: list[str]) -> str:
    return ", ".join(map(display, tokens))


def decode_answer(data: type[D], method: str, url: str, response: RawResponse) -> D:
    answer: MarketAnswer[D] = validated(_validator(data), data.__name__, method, url, response)
    if answer.success and answer.data is not None and answer.error is None:
        return answer.data
    reason = f"the response ({response.status}) is a failure"
    if answer.success or answer.data is not None or answer.error is None:
        given = [name for name in ("data", "error") if getattr(answer, name) is not None]
        has = f"has {' and '.join(given)}" if given else "has neither data nor an error"
        reason = f"the response {has}, and success is {str(answer.success).lower()}"
    message = "" if answer.error is None else f": {printable(answer.error, 200)}"
    raise APIResponseError(
        f"expected {data.__name__}, but {reason}{message}", method=method, url=url, response=response
    )


def decode_by_path(path: str, method: str, url: str, response: RawResponse) -> Any:
    return decode_answer(ENDPOINTS[path].answer, method, url, response)


@cache
def _validator(data: type[MarketModel]) -> Callable[[bytes], Any]:
    wrapped = MarketAnswer[data]  # type: ignore[valid-type] # a class that is only known now
    # Python's field names are not accepted in responses.
    return cast("Callable[[bytes], Any]", partial(wrapped.__pydantic_validator__.validate_json, by_name=False))
