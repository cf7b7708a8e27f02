"""A bot for many machines: each signal is acted on by one of them, under one budget and one rate limit.

With TRADE_FLEET and TRADE_BASE_URL set, it is a member of the group `bots`. Start it on every machine, and on two of
them `trade fleet relay --chain base`.
"""

import sys

from tradesdk import FleetError
from tradesdk.fleet import FleetSignal, FleetSignals

BASE = 8453


def act_on_signals(count: int | None = None) -> None:
    """Act on signals of the group: `count` of them, or until Ctrl-C."""
    with FleetSignals(chain=BASE, group="bots") as signals:
        for number, signal in enumerate(signals, 1):
            if isinstance(signal, FleetSignal) and signals.once(f"acted on {signal.id}"):
                again = " (another member may have seen it)" if signal.redelivered else ""
                print(f"{signal.direction:<4} {signal.token_symbol:<7} {signal.confidence:.0%}{again}")
            if number == count:
                break  # the end of the block marks the last one as done, too


if __name__ == "__main__":
    try:
        act_on_signals(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    except KeyboardInterrupt:
        pass
    except FleetError as error:
        sys.exit(f"{error.message}\n{error.hint}")
