"""A page of 100 trades from bytes to models: what the SDK does, against pydantic alone and other ways to do it."""

import json
from datetime import datetime

from _measure import Bar, finish, in_process, installed, measure, report
from _server import trade
from pydantic import BaseModel

from tradesdk import Page, Trade
from tradesdk._http.response import decode_page
from tradesdk._values.http import Headers, RawResponse

ROUNDS = 150
TIMES = 40
URL = "http://127.0.0.1/v1/trades"


class BareTrade(BaseModel):
    """A trade as anybody would write it down."""

    id: str
    agent_id: str
    token_address: str
    token_symbol: str
    chain_id: int
    direction: str
    entry_price_usd: float
    exit_price_usd: float | None
    pnl_usd: float | None
    roi_pct: float | None
    status: str
    opened_at: datetime
    closed_at: datetime | None


class BarePage(BaseModel):
    data: list[BareTrade]
    next_cursor: str | None = None


content = json.dumps({"data": [trade(number) for number in range(100)], "next_cursor": "c" * 60}).encode()
response = RawResponse(200, Headers([("content-type", "application/json")]), content)
bare = BarePage.__pydantic_validator__.validate_json

page = decode_page(Trade, "GET", URL, response)
assert page.model_dump(mode="json") == json.loads(content)
assert [t.opened_at for t in page.data] == [t.opened_at for t in bare(content).data]

OURS, BARE = "tradesdk: bytes to Page[Trade]", "pydantic: validate_json of a bare page"
calls = {
    OURS: lambda: decode_page(Trade, "GET", URL, response),
    BARE: lambda: bare(content),
    "json.loads alone": lambda: json.loads(content),
    "two passes: json.loads, model_validate": lambda: Page[Trade].model_validate(json.loads(content)),
}
peers = [name for name in ("openai",) if installed(name)]
if "openai" in peers:
    from openai import BaseModel as OpenAIModel
    from openai._models import construct_type

    class TheirTrade(OpenAIModel):
        id: str
        agent_id: str
        token_address: str
        token_symbol: str
        chain_id: int
        direction: str
        entry_price_usd: float
        exit_price_usd: float | None
        pnl_usd: float | None
        roi_pct: float | None
        status: str
        opened_at: int
        closed_at: int | None

    class TheirPage(OpenAIModel):
        data: list[TheirTrade]
        next_cursor: str | None = None

    calls["openai: json.loads, construct_type"] = lambda: construct_type(type_=TheirPage, value=json.loads(content))

figures = measure({name: in_process(call, times=TIMES) for name, call in calls.items()}, rounds=ROUNDS)
finish(
    report(
        f"A page of 100 trades, {len(content):,} bytes, {TIMES} pages a round",
        figures,
        [Bar(OURS, BARE, 1.15)],
        unit="µs",
        peers=["pydantic", *peers],
    )
)
