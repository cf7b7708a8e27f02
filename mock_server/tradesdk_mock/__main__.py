"""python -m tradesdk_mock: the mock server in the foreground."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

PORT = 8787


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tradesdk_mock",
        description="A mock of the trading agent service on this machine. It prints its address, and the "
        "address of the market data if it is another one. Stop it with Ctrl-C. "
        "Every tenant starts empty; --populate fills one.",
        epilog="Any API key such as mock_full_NAME or mock_read_NAME works and creates the tenant NAME: "
        f"curl -H 'Authorization: Bearer mock_full_me' http://127.0.0.1:{PORT}/v1/account",
    )
    parser.add_argument("verb", nargs="?", choices=["serve"], help=argparse.SUPPRESS)  # as in `trade mock serve`
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=PORT, help="port; 0 lets the system choose (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="decides every id, price and address (default: 7)")
    parser.add_argument("--db", metavar="FILE", help="keep the state in this file (default: in memory)")
    parser.add_argument(
        "--populate",
        metavar="TENANT",
        action="append",
        default=[],
        help="fill this tenant with wallets, agents, trades and positions; may be given several times "
        "(default: nothing is filled)",
    )
    parser.add_argument(
        "--gap",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="choose where the specification is silent (GET /_mock/gaps lists all); may be given several times",
    )
    market = parser.add_mutually_exclusive_group()
    market.add_argument(
        "--scripted",
        dest="market",
        action="store_const",
        const="scripted",
        help="only publish signals that are emitted with POST /_mock/signals",
    )
    market.add_argument(
        "--live",
        dest="market",
        action="store_const",
        const="live",
        help="publish the market's signals (default for a new world; a state file keeps its setting)",
    )
    parser.add_argument("--freeze", action="store_true", help="freeze the clock; POST /_mock/clock moves it")
    parser.add_argument(
        "--allow-remote-control",
        action="store_true",
        help="accept control requests (/_mock) from other machines, too",
    )
    options = parser.parse_args(argv)

    from .core.errors import MockServerError
    from .core.gap_options import GapOptions

    try:
        chosen = {name: value for name, _, value in (text.partition("=") for text in options.gap)}
        GapOptions().changed(**chosen)
        from .serving.uvicorn_server import MockServer, stopped_by_signals, wait_for

        # Before the address is printed: the program that reads it may stop the server at once.
        with (
            stopped_by_signals() as stop,
            MockServer(
                seed=options.seed,
                host=options.host,
                port=options.port,
                db=options.db,
                gaps=chosen,
                signals=options.market,
                allow_remote_control=options.allow_remote_control,
            ) as server,
        ):
            if options.freeze:
                server.clock.freeze()
            for tenant in options.populate:
                server.populate(tenant)
            print(server.url, flush=True)
            if server.market_url != server.url:
                print(server.market_url, flush=True)
            wait_for(stop)
    except (MockServerError, ModuleNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
