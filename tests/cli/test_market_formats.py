"""Every command that shows market data or payments, in every format; strangers' text is only text in all of them."""

from __future__ import annotations

from typing import Any

from .._rows import each_of
from .._texts import HOSTILE
from ._services import Scripted
from ._terminal import Terminal

SIGNAL = {
    "signal": HOSTILE,
    "reason": HOSTILE,
    "signalPriceEth": 1e-05,
    "signalPriceUsd": 0.03,
    "signalPriceFormatted": HOSTILE,
    "createdAt": "2020-01-04T01:20:58Z",
    "previousShortSMA": None,
    "previousLongSMA": 1.5,
    "crossoverDetected": True,
    "consecutiveGreenCandles": 3,
}
OF_TOKEN = {"tokenAddress": HOSTILE, "tokenSymbol": HOSTILE}
SIGNALS = {"results": [{**OF_TOKEN, "strategy": HOSTILE, "signalCount": 1, "signals": [SIGNAL, SIGNAL]}]}
TOKEN = {"tokenAddress": HOSTILE, "symbol": HOSTILE, "name": HOSTILE, "network": HOSTILE}
MARKET: dict[str, tuple[str, dict[str, Any]]] = {
    "signals": ("signals X", SIGNALS),
    "history": ("history X", SIGNALS),
    "prices": (
        "prices X",
        {"results": [{"tokenAddress": HOSTILE, "symbol": HOSTILE, "currentPriceEth": 1.0, "currentPriceUsd": 2e-08}]},
    ),
    "win-rate": ("win-rate X", {"results": [{**OF_TOKEN, "winRate": None, HOSTILE: HOSTILE}]}),
    "avg-prices": (
        "avg-prices X",
        {
            "results": [
                {
                    **OF_TOKEN,
                    "averageBuyPriceETH": None,
                    "averageBuyPriceUSD": 1.25,
                    "averageSellPriceETH": 2.0,
                    "averageSellPriceUSD": None,
                }
            ]
        },
    ),
    "top": ("top --sort ROI", {"tokens": [{**TOKEN, "winRate": 51.5, "ROI": -3.25, "agentCount": 4}]}),
    "metrics": (
        "metrics",
        {
            **dict.fromkeys(("totalAgents", "activeAgents", "totalTrades", "totalProfitableTrades"), 3),
            **dict.fromkeys(("totalBuyETH", "totalBuyUSD", "totalSellETH", "totalSellUSD"), 1.5),
            **dict.fromkeys(("realizedProfitETH", "realizedProfitUSD"), -2.5),
            **dict.fromkeys(("unrealizedProfitETH", "unrealizedProfitUSD"), 2.5),
            "winRate": 50.0,
            HOSTILE: HOSTILE,
        },
    ),
    "tokens": (
        "tokens",
        {
            "total": 1,
            "tokens": [
                {
                    **TOKEN,
                    "logo": HOSTILE,
                    "marketCap": 1.5,
                    "marketCapRank": 1,
                    "poolAddress": HOSTILE,
                    "agentCount": 2,
                }
            ],
        },
    ),
}


@each_of("verb", MARKET)
def test_market_data(trade: Terminal, service: Scripted, verb: str) -> None:
    """The service asks for nothing, so this is the way of the data alone."""
    line, data = MARKET[verb]
    service.says(200, {"success": True, "data": data, "error": None})
    wanted = data if verb == "metrics" else data.get("results", data.get("tokens"))
    for form in ("terminal", "ndjson", *(("table", "json") if verb in ("signals", "metrics") else ())):
        asked = () if form == "terminal" else ("-o", form)
        run = trade("market", *line.split(), *asked, tty=form == "terminal", env={"NO_COLOR": "1"})
        assert run.code == 0, run.err
        for text in (run.out, run.err):
            assert all(line.isprintable() for line in text.split("\n")), "nothing that acts on a terminal"
        if form == "json":
            assert run.json == wanted
        elif form == "ndjson":
            assert (run.json if verb == "metrics" else run.lines) == wanted
        else:
            assert "\\x1b[2J\\x1b[31m" in run.out
            told = "  2020-01-04" if form == "terminal" else "  2020-01-04 01:20:58Z  "
            assert (told in run.out) is (verb in ("signals", "history")), "as other times are shown"
    assert service.keys[-1] == "", "no API key where none is asked for"


def test_payments_on_a_narrow_terminal(buyer: Terminal) -> None:
    assert buyer("market", "prices", "ETH", "--max-price", "0.03").code == 0
    name = buyer("pay", "history").lines[0]["id"]
    narrow = buyer("pay", "history", tty=True, columns=60, env={"NO_COLOR": "1"})
    assert f"{name[:12]}…" in narrow.out
    assert "not shown: " in narrow.err
    assert all(len(line) <= 60 for line in narrow.out.splitlines())
