"""One typed GET over a connection that stays open: ours against the bare HTTP library with `json.loads`.

Ours sends a key, retries, reads the rate limit, and returns a typed agent; the bare library and httpx2 return a dict.
The other peers make a GET of their own with their own client, to the same server, with an answer of about
the same size.
"""

import json
import subprocess
import sys
from pathlib import Path

import httpx
from _measure import Bar, finish, in_process, installed, measure, report

from tradesdk import TradeClient

ROUNDS = 150
TIMES = 40
AGENT = "agt_1cee9c02f91dee7667e2b87f"
OURS, RAW = "tradesdk: client.agents.get(id)", "httpx: json.loads(client.get(url).content)"

server = subprocess.Popen(
    [sys.executable, str(Path(__file__).with_name("_server.py"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
assert server.stdin is not None
assert server.stdout is not None
url = f"http://127.0.0.1:{int(server.stdout.readline())}"

client = TradeClient(api_key="mock_full_me", base_url=url)
headers = {"Authorization": "Bearer mock_full_me", "Accept": "application/json"}
raw = httpx.Client(base_url=url, headers=headers)
raw_url = f"/v1/agents/{AGENT}"

agent = client.agents.get(AGENT)
assert agent.model_dump(mode="json") == json.loads(raw.get(raw_url).content)
assert client.rate_limit is not None
assert client.rate_limit.remaining == 999_999

calls = {OURS: lambda: client.agents.get(AGENT), RAW: lambda: json.loads(raw.get(raw_url).content)}

peers = [name for name in ("httpx2", "openai", "stripe", "alpaca-py") if installed(name)]
if "httpx2" in peers:
    import httpx2

    raw2 = httpx2.Client(base_url=url, headers=headers)
    assert raw2.get(raw_url).content == raw.get(raw_url).content
    calls["httpx2: json.loads(client.get(url).content)"] = lambda: json.loads(raw2.get(raw_url).content)
if "openai" in peers:
    from openai import OpenAI

    openai = OpenAI(api_key="k", base_url=f"{url}/v1")
    assert openai.models.retrieve("m").owned_by
    calls["openai: client.models.retrieve(id)"] = lambda: openai.models.retrieve("m")
if "stripe" in peers:
    from stripe import StripeClient

    stripe = StripeClient("k", base_addresses={"api": url})
    assert stripe.v1.customers.retrieve("cus_1").name == "base-momentum"
    calls["stripe: client.v1.customers.retrieve(id)"] = lambda: stripe.v1.customers.retrieve("cus_1")
if "alpaca-py" in peers:
    from alpaca.trading.client import TradingClient
    from alpaca.trading.models import Asset

    alpaca = TradingClient("k", "s", url_override=url)
    assert isinstance(alpaca.get_asset("AAPL"), Asset)
    calls["alpaca-py: client.get_asset(symbol)"] = lambda: alpaca.get_asset("AAPL")

figures = measure({name: in_process(call, times=TIMES) for name, call in calls.items()}, rounds=ROUNDS)
held = report(
    f"One typed GET, blocking, {TIMES} calls a round",
    figures,
    [Bar(OURS, RAW, 0.55)],
    unit="µs",
    peers=["httpx", "pydantic", *peers],
)
client.close()
raw.close()
server.stdin.close()
server.wait()
finish(held)
