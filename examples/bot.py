"""A bot that follows signals and ends cleanly on Ctrl-C and SIGTERM: no traceback, and the next run continues.

    python bot.py

It needs TRADE_API_KEY and TRADE_BASE_URL, or a profile in TRADE_PROFILE.
"""

import signal
import sys


def stop(number: int, frame: object) -> None:
    sys.exit(0)  # leaves every `with`: the stream is closed, and its position saved


if __name__ == "__main__":  # before the imports, which take a while
    signal.signal(signal.SIGINT, stop)  # Ctrl-C
    signal.signal(signal.SIGTERM, stop)  # systemd, Docker, kill

from tradesdk import TradeClient, TradeError  # noqa: E402 - the two lines above come first

BASE = 8453


def main() -> None:
    with TradeClient() as client, client.signals.stream(chain=BASE, checkpoint=True) as stream:
        print("following", flush=True)
        for item in stream:
            print(f"{item.timestamp:%H:%M:%S} {item.direction} {item.token_symbol} {item.confidence:.0%}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except TradeError as error:  # a wrong setting, a revoked key: it does not go away by itself
        sys.exit(f"{error}\nhint: {error.hint}")
