"""What `import tradesdk` costs, and what the first client costs in a fresh process."""

import sys

from _measure import Bar, finish, installed, measure, process, report

ROUNDS = 25

IMPORTS = {
    "bare interpreter": "pass",
    "import tradesdk": "import tradesdk",
    "import httpx": "import httpx",
    "import httpx, pydantic": "import httpx, pydantic",
}
PEER_IMPORTS = {
    "openai": "import openai",
    "stripe": "import stripe",
    "alpaca-py": "from alpaca.trading.client import TradingClient",
}
CLIENTS = {
    "TradeClient()": "from tradesdk import TradeClient; TradeClient(api_key='k', base_url='https://api.example.com')",
    "AsyncTradeClient()": (
        "from tradesdk import AsyncTradeClient; AsyncTradeClient(api_key='k', base_url='https://api.example.com')"
    ),
    "import httpx, pydantic; httpx.Client()": "import httpx, pydantic; httpx.Client()",
}
PEER_CLIENTS = {
    "openai": "from openai import OpenAI; OpenAI(api_key='k')",
    "stripe": "from stripe import StripeClient; StripeClient('k')",
    "alpaca-py": "from alpaca.trading.client import TradingClient; TradingClient('k', 's')",
}

peers = [name for name in PEER_IMPORTS if installed(name)]


def programs(ours: dict[str, str], theirs: dict[str, str]) -> dict[str, str]:
    return ours | {f"the same with {name}": theirs[name] for name in peers}


def compare(title: str, code: dict[str, str], bars: list[Bar]) -> bool:
    probes = {name: process([sys.executable, "-c", program]) for name, program in code.items()}
    return report(title, measure(probes, rounds=ROUNDS), bars, unit="ms", peers=["httpx", "pydantic", *peers])


held = compare(
    "Importing, nothing used yet",
    programs(IMPORTS, PEER_IMPORTS),
    [Bar("import tradesdk", "bare interpreter", 1.5)],
)
held &= compare(
    "The first client in a fresh process",
    programs(CLIENTS, PEER_CLIENTS),
    [
        Bar("TradeClient()", "import httpx, pydantic; httpx.Client()", 1.3),
        Bar("AsyncTradeClient()", "import httpx, pydantic; httpx.Client()", 1.3),
    ],
)
finish(held)
