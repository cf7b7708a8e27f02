"""Words that people try, each with ours, and the nearest of some names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VERB_WORDS: Mapping[str, tuple[str, ...]] = {
    "ls": ("list",),
    "all": ("list",),
    "index": ("list",),
    "show": ("get", "list"),
    "view": ("get", "show"),
    "describe": ("get", "show"),
    "info": ("get", "show", "status"),
    "inspect": ("get", "show"),
    "cat": ("get", "show"),
    "read": ("get", "show"),
    "get": ("show", "list"),
    "new": ("create", "connect", "new"),
    "add": ("create", "connect", "add"),
    "make": ("create",),
    "create": ("connect", "new", "add"),
    "edit": ("update", "set"),
    "set": ("update",),
    "change": ("update",),
    "modify": ("update",),
    "patch": ("update",),
    "rm": ("delete", "remove", "unset"),
    "del": ("delete", "remove", "unset"),
    "remove": ("delete", "unset"),
    "delete": ("remove", "revoke", "unset"),
    "destroy": ("delete",),
    "link": ("connect",),
    "register": ("connect",),
    "import": ("connect",),
    "balances": ("balance",),
    "funds": ("balance",),
    "listen": ("stream",),
    "watch": ("stream", "logs"),
    "tail": ("stream", "logs"),
    "follow": ("stream", "logs"),
    "subscribe": ("stream",),
    "last": ("latest",),
    "newest": ("latest",),
    "recent": ("latest",),
    "list": ("latest", "history", "show"),
    "past": ("history",),
    "price": ("prices",),
    "quote": ("prices",),
    "cost": ("quote",),
    "limit": ("budget",),
    "limits": ("budget", "usage"),
    "start": ("serve",),
    "run": ("serve",),
    "up": ("serve",),
    "clear": ("reset",),
    "save": ("snapshot",),
    "load": ("restore",),
    "where": ("path",),
}
"""Other programs' verbs, each with ours, the likeliest first; a noun that has none of them is not meant."""


ROOT_WORDS: Mapping[str, tuple[str, ...]] = {
    "balance": ("wallets", "balance"),
    "usage": ("account", "usage"),
    "plan": ("account", "show"),
    "me": ("whoami",),
    "auth": ("login",),
    "signin": ("login",),
    "signout": ("logout",),
    "settings": ("config", "list"),
    "profiles": ("config", "profiles"),
    "configure": ("login",),
    "init": ("login",),
    "version": ("--version",),
    "stream": ("signals", "stream"),
    "listen": ("signals", "stream"),
    "tail": ("signals", "stream"),
    "prices": ("market", "prices"),
    "price": ("market", "prices"),
    "tokens": ("market", "tokens"),
    "budget": ("pay", "budget"),
    "payments": ("pay", "history"),
    "serve": ("mock", "serve"),
    "bot": ("agents",),
    "bots": ("agents",),
    "chart": ("plot",),
    "graph": ("plot",),
    "watch": ("top",),
    "dashboard": ("top",),
    "check": ("doctor",),
    "request": ("api",),
    "curl": ("api",),
    "completions": ("completion",),
    "man": ("help",),
}
"""What people type at other programs, or leave the noun out of."""


OPTION_WORDS: Mapping[str, tuple[str, ...]] = {
    "--json": ("-o json",),
    "--ndjson": ("-o ndjson",),
    "--jsonl": ("-o ndjson",),
    "--csv": ("-o csv",),
    "--tsv": ("-o tsv",),
    "--table": ("-o table",),
    "--format": ("-o",),
    "--output-format": ("-o",),
    "--jq": ("--query",),
    "--filter": ("--query",),
    "--select": ("--fields",),
    "--columns": ("--fields",),
    "--output-file": ("--out",),
    "--file": ("--out",),
    "--count": ("--limit", "--count"),
    "--max": ("--limit",),
    "--max-items": ("--limit",),
    "--top": ("--limit",),
    "--num": ("--limit",),
    "--per-page": ("--page-size",),
    "--starting-token": ("--cursor",),
    "--paginate": ("--all",),
    "--force": ("--yes",),
    "--confirm": ("--yes",),
    "--assume-yes": ("--yes",),
    "--no-input": ("--yes",),
    "--dryrun": ("--dry-run",),
    "--simulate": ("--dry-run",),
    "--test": ("--mock",),
    "--paper": ("--mock",),
    "--sandbox": ("--mock",),
    "--demo": ("--mock",),
    "--url": ("--base-url",),
    "--host": ("--base-url",),
    "--endpoint": ("--base-url",),
    "--endpoint-url": ("--base-url",),
    "--network": ("--chain",),
    "--blockchain": ("--chain",),
    "--agent": ("--agent-id",),
    "--wallet": ("--wallet-id",),
    "--state": ("--status",),
    "--side": ("--direction",),
    "--start": ("--since",),
    "--from": ("--since",),
    "--end": ("--until", "--duration"),
    "--until": ("--until-idle",),
    "--confidence": ("--min-confidence",),
    "--stop-loss": ("--stop-loss-pct",),
    "--sl": ("--stop-loss-pct",),
    "--take-profit": ("--take-profit-pct",),
    "--tp": ("--take-profit-pct",),
    "--price": ("--max-price",),
    "--budget": ("--max-price",),
    "--symbol": ("--token",),
}
"""Other programs' options, each with ours, the likeliest first; one that the command does not have is not meant."""


VALUE_WORDS: Mapping[str, str] = {"jsonl": "ndjson", "text": "table", "txt": "table"}
"""Other programs' names of values, each with ours."""


_AGENT_STATE = (
    "the API has no endpoint for it: agents are started, stopped and paused in the dashboard, on a mock with "
    "trade mock agent; to open fewer positions: trade agents update AGENT_ID --max-positions 1 --min-confidence 1"
)


ELSEWHERE: Mapping[tuple[str, ...], str] = {
    **{("agents", verb): _AGENT_STATE for verb in ("start", "stop", "pause", "resume", "halt")},
    ("agents", "update", "--status"): _AGENT_STATE,
    ("install",): "to let your shell complete commands: trade completion bash",
    ("update",): "this program is updated by pip or whatever installed it; an agent: trade agents update AGENT_ID",
    ("upgrade",): "this program is updated by pip or whatever installed it",
    ("buy",): "agents buy and sell, you do not; market data is bought with: trade market prices TOKEN",
    ("sell",): "agents buy and sell, you do not: trade agents list shows them, trade trades list what they did",
    ("order",): "agents buy and sell, you do not: trade agents list shows them, trade trades list what they did",
    ("orders",): "agents buy and sell, you do not: trade agents list shows them, trade trades list what they did",
    (
        "positions",
        "close",
    ): "agents close positions, you do not; their rules can be changed: trade agents update AGENT_ID",
    ("wallets", "delete"): "a wallet cannot be disconnected here; the dashboard may be able to",
    ("wallets", "rm"): "a wallet cannot be disconnected here; the dashboard may be able to",
    ("market", "--yes"): "a purchase is allowed by --max-price USD, or by a budget: trade pay budget set --per-day 5",
    ("market", "-y"): "a purchase is allowed by --max-price USD, or by a budget: trade pay budget set --per-day 5",
    ("logout", "--yes"): "leave it out: trade logout asks nothing",
    ("logout", "-y"): "leave it out: trade logout asks nothing",
    ("--page",): "a list continues at a cursor: --cursor CURSOR, which the list before named; or --all",
    **dict.fromkeys(
        (("--color",), ("--colour",), ("--no-color",), ("--no-colour",)),
        "colors follow the environment: NO_COLOR=1 turns them off, FORCE_COLOR=1 on",
    ),
    **dict.fromkeys(
        (("--no-retry",), ("--no-retries",), ("--retry",), ("--retries",)),
        "retries follow the environment: TRADE_MAX_RETRIES=0 sends every request once",
    ),
    ("--market-url",): "set it in the environment, TRADE_MARKET_BASE_URL, or keep it: trade config set market_url URL",
    ("--install-completion",): "did you mean: trade completion bash",
    ("--show-completion",): "did you mean: trade completion bash",
}
"""What people look for and nobody offers here, with what there is."""


ARGUMENT_FROM: Mapping[str, str] = {
    "AGENT_ID": "agents list",
    "WALLET_ID": "wallets list",
    "--wallet-id": "wallets list",
    "TRADE_ID": "trades list",
    "PAYMENT_ID": "pay history",
    "TOKEN": "market tokens",
    "KEY_ID": "mock key list",
    "FAULT_ID": "mock fault list",
}
"""Where the value of an argument can be seen: what stands behind `trade`."""


_ALIKE = 0.7


_BEST = 0.12


def closest(word: str, names: Sequence[str]) -> list[str]:
    """The names that `word` may be a slip of, the nearest first; often none, and one where it is clear.

    A beginning that only one name has is that name.
    """
    from difflib import SequenceMatcher

    begun = [name for name in names if name.startswith(word)]
    if len(begun) == 1 and len(word.lstrip("-")) > 1:
        return begun
    rated = sorted(((SequenceMatcher(None, name, word).ratio(), name) for name in names), reverse=True)
    near = [(ratio, name) for ratio, name in rated if ratio >= _ALIKE]
    if near and (len(near) == 1 or near[0][0] - near[1][0] >= _BEST):
        return [near[0][1]]
    return begun or [name for _, name in near]
