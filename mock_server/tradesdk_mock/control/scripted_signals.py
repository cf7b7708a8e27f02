"""The market as a test wants it: signals, prices that fail, candles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

from ..core.clock import END
from ..core.errors import ApiError, MockServerError, as_mock_error
from ..market.indicators import CHAINS
from ..market.tokens import find
from ..state.world import World
from ..trading import signal_feed
from ..trading.signal_feed import MockSignal

if TYPE_CHECKING:
    from ..market.candles import Candle


class ScriptedSignal(TypedDict, total=False):
    """One signal of `emit_signals`: the arguments of `emit_signal`, and its delay.

    Attributes:
        after: seconds from the call to the publication, by default 0.
    """

    after: float
    chain_id: int
    token: str
    direction: str
    confidence: float
    price_usd: float
    timestamp: int


class Scripting:
    """Signals and prices on request. A part of `MockService`."""

    world: World

    def emit_signal(
        self,
        *,
        chain_id: int = 8453,
        token: str | None = None,
        direction: str | None = None,
        confidence: float | None = None,
        price_usd: float | None = None,
        timestamp: int | None = None,
        at: float | None = None,
    ) -> MockSignal:
        """Publish a signal: on the stream, among the latest, in the history, and in the market data of its token.

        What is left out follows from the seed. Agents act on it as on any signal, at the market's price whatever
        `price_usd` says; they don't trade ether or unknown tokens.

        Args:
            chain_id: 8453 or 56.
            token: a symbol or an address, also of an unknown token.
            direction: `BUY` or `SELL`, in any case.
            confidence: 0.0 to 1.0.
            price_usd: above 0.
            timestamp: the date in the signal, in Unix seconds; by default the time of publication.
            at: when to publish it, in Unix seconds of the service, by default now.

        Raises:
            MockServerError: an invalid value.
        """
        (signal,) = self.emit_series(
            chain_id=chain_id,
            token=token,
            direction=direction,
            confidence=confidence,
            price_usd=price_usd,
            timestamp=timestamp,
            at=at,
        )
        return signal

    def emit_series(
        self,
        *,
        chain_id: int = 8453,
        token: str | None = None,
        direction: str | None = None,
        confidence: float | None = None,
        price_usd: float | None = None,
        timestamp: int | None = None,
        at: float | None = None,
        after: float | None = None,
        count: int = 1,
        every: float = 0,
    ) -> list[MockSignal]:
        """Publish several signals with the same fields: all of them, or none when one is invalid.

        Args:
            after: publish the first this many seconds from now; not beside `at`.
            count: how many, 1 to 10,000.
            every: seconds from one to the next, 0 to 86,400. All other arguments are those of `emit_signal`.

        Raises:
            MockServerError: an invalid value.
        """
        if not 1 <= count <= 10_000:
            raise MockServerError("count: must be from 1 to 10,000")
        if not 0 <= every <= 86_400:
            raise MockServerError("every: must be from 0 to 86,400 seconds")
        if after is not None and (at is not None or after < 0):
            raise MockServerError("after: must be seconds from now, and not beside at")
        with self._transaction() as world:
            now = world.now()
            at = now + after if after is not None else at
            first = now if at is None else at
            try:
                return [
                    signal_feed.emit(
                        world,
                        chain_id=chain_id,
                        token=token,
                        direction=direction,
                        confidence=confidence,
                        price_usd=price_usd,
                        timestamp=timestamp,
                        at=at if number == 0 or not every else first + number * every,
                        asked=now,
                    )
                    for number in range(count)
                ]
            except ValueError as error:
                raise MockServerError(str(error)) from None

    def emit_signals(self, script: Iterable[ScriptedSignal]) -> list[MockSignal]:
        """Publish signals when their times come: all of them, or none when one is invalid.

            mock.emit_signals([
                {"token": "BRETT", "direction": "BUY", "confidence": 0.95},
                {"token": "BRETT", "direction": "SELL", "confidence": 0.9, "after": 30},
            ])

        Args:
            script: for each signal the arguments of `emit_signal`, with `after` for `at`: seconds from now.

        Returns: the signals in the order of the script.

        Raises:
            MockServerError: an unknown name or an invalid value; it names the signal, counted from 1.
        """
        known = ScriptedSignal.__annotations__
        if isinstance(script, Mapping | str | bytes) or not isinstance(script, Iterable):
            raise MockServerError(f"script: must be a list of signals, not of type {type(script).__name__}")
        with self._transaction() as world:
            now, made = world.now(), list[MockSignal]()
            for number, line in enumerate(script, 1):
                if not isinstance(line, Mapping):
                    raise MockServerError(f"signal {number}: must be a dictionary of arguments, not {line!r}")
                wish = dict(line)
                after = wish.pop("after", 0)
                unknown = sorted(wish.keys() - known)
                if unknown:
                    raise MockServerError(f"signal {number}: {unknown[0]!r} is not one of {', '.join(known)}")
                if isinstance(after, bool) or not isinstance(after, int | float) or not 0 <= after < END:
                    raise MockServerError(f"signal {number}: after: must be seconds from now, not {after!r}")
                try:
                    # Untyped values: `emit` checks them.
                    made.append(signal_feed.emit(world, **wish, at=now + after, asked=now))  # type: ignore[arg-type]
                except ValueError as error:
                    raise MockServerError(f"signal {number}: {error}") from None
            return made

    def set_price_failure(self, failing: bool | list[str]) -> None:
        """Make token prices fail with 502: all (True), none (False), or those of some symbols or addresses."""
        with self._transaction() as world:
            world.set_price_failure(failing)

    def candles(self, token: str, *, chain_id: int = 8453, start: float, end: float, seconds: int = 60) -> list[Candle]:
        """A token's prices as candles in USD, oldest first. Times in the future work too.

        Args:
            token: symbol, address or coin id, in any case.
            chain_id: 8453 or 56.
            start: no candle begins earlier, Unix seconds. Each begins at a multiple of its length.
            end: no candle ends later, Unix seconds.
            seconds: of a candle: 60, or a multiple of it up to a day.

        Raises:
            MockServerError: an unknown chain or token, invalid times, or more than 100,000 candles.
        """
        from ..market.candles import candles

        found = find(self.world.seed, chain_id, token) if chain_id in CHAINS and isinstance(token, str) else None
        if found is None:
            raise MockServerError(f"there is no token {str(token)[:60]!r} on chain {str(chain_id)[:20]}")
        try:
            return candles(self.world.prices, found, start, end, seconds)
        except ValueError as error:
            raise MockServerError(str(error)) from None

    @contextmanager
    def _transaction(self) -> Iterator[World]:
        """The transaction of a change. Open streams check for news afterwards."""
        with self._reading() as world:
            yield world
            world.notify_streams()

    @contextmanager
    def _reading(self) -> Iterator[World]:
        """A transaction that first takes over what other processes have changed."""
        try:
            with self.world.transaction():
                yield self.world
        except ApiError as error:
            raise as_mock_error(error) from None
