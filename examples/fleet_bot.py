"""A bot for any number of machines: they share the rate limit, one budget and the signals, and act once on each.

    python fleet_bot.py

Start it on each machine with the same TRADE_FLEET (a Redis or Valkey server), TRADE_API_KEY, TRADE_WALLET_KEY and
TRADE_BASE_URL, and start it again when it ends. A member that was killed loses nothing: its signal goes to another one.

With none of them set it plays on a mock and a server that it starts itself, which takes a few seconds: one member
crashes when it has paid and not acted yet, and the next one continues there.
"""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from tradesdk import Budget, MarketClient, PaymentRefusedError, PaymentUndeliveredError, StreamSignal, TradeClient
from tradesdk.fleet import RedisLedger, RedisRateLimiter, SharedStream
from tradesdk_mock import MockServer

BASE = 8453
BUDGET = Budget(per_day="1.00")  # of all machines together
SURE = 0.7  # the least confidence that it acts on
MOVED = 0.02  # a price that has changed by more than this since the signal is left alone
NOT_BOUGHT = (PaymentRefusedError, PaymentUndeliveredError)  # such as over_budget, or a member died while it paid
NEEDED = {"TRADE_FLEET", "TRADE_API_KEY", "TRADE_WALLET_KEY", "TRADE_BASE_URL"}

Say = Callable[[str], object]


def run(say: Say = print) -> None:
    """Be a member, until something ends it. It may be ended anywhere."""
    with (
        RedisRateLimiter() as limiter,
        RedisLedger() as ledger,
        TradeClient(rate_limiter=limiter) as client,
        # A member that dies while it pays is waited for up to five minutes.
        MarketClient(ledger=ledger, budget=BUDGET, deadline=400) as market,
        client.signals.relay(chain=BASE),  # each member offers to read the service's stream for all
        client.signals.shared(chain=BASE, group="bots", min_confidence=SURE) as stream,
    ):
        say("following")
        for each in stream:  # asking for the next one says that the last one is done
            say(f"{each.token_symbol:<6} {act(each, stream, market, say)} ({each.id})")


def act(each: StreamSignal, stream: SharedStream[StreamSignal], market: MarketClient, say: Say) -> str:
    """Act on a signal; what was done. An error that is not handled ends this member: the signal goes to another one."""
    try:
        # The name is paid for once, by whichever member, and however often.
        prices = market.token_prices([each.token_address], purchase=f"fleet-bot/{each.id}")
    except NOT_BOUGHT as error:
        return f"no price: {error.code}"
    say(f"{each.token_symbol:<6} {'paid by a member that crashed' if prices.again else 'paid'}")
    price = prices.data.results[0].current_price_usd
    if not each.price_usd or abs(price / each.price_usd - 1) > MOVED:
        return "the price has moved"
    # One member gets True. If it dies before the next line, nobody acts: better than twice. If your exchange takes a
    # request id, send each.id as that instead, and leave out `once`.
    if not stream.once(each.id):
        return "another member has acted"
    return "bought" if each.direction == "BUY" else "sold"  # here your order would be sent


class Crash(Exception):
    """What stands for kill -9 in the rehearsal."""


def rehearse() -> None:
    """Two members, one after the other, and a crash of the first at the worst moment."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        mock = stack.enter_context(MockServer(seed=7, signals="scripted"))
        os.environ["TRADE_FLEET"] = stack.enter_context(own_server(folder))
        os.environ |= {"TRADE_API_KEY": "mock_full_me", "TRADE_WALLET_KEY": "0x" + "01" * 32}
        os.environ |= {"TRADE_BASE_URL": mock.url, "TRADE_HOME": folder}

        def member(tokens: list[str], last: str) -> None:
            def say(text: str) -> None:
                print(text)
                if text == "following":
                    while not mock.requests("GET", "/v1/signals/stream"):  # until a relay reads
                        time.sleep(0.05)
                    for token in tokens:
                        mock.emit_signal(token=token, direction="BUY", confidence=0.9)
                if text.startswith(last):
                    raise Crash

            with suppress(Crash):
                run(say)

        member(["BRETT", "AERO"], last="AERO   paid")
        print("-- crash --")
        member(["DEGEN"], last="DEGEN  bought")
        mock.payments.assert_not_charged_twice()
        print(f"${mock.payments.spent() / 1e6:.2f} was paid")


@contextmanager
def own_server(folder: str) -> Iterator[str]:
    """A server that writes each change to its disk before it answers: others are refused for money."""
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        sys.exit("install Valkey or Redis for a rehearsal, or set " + ", ".join(sorted(NEEDED)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
    command += ["--appendonly", "yes", "--appendfsync", "always"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - our own words
        try:
            while process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.terminate()


def stop(number: int, frame: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    if NEEDED & os.environ.keys():
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        run()
    else:
        rehearse()
