"""Market data as the specification has it, shown on the mock over bare HTTP: what is asked, refused and answered."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tradesdk_mock import GapOptions, MockClock, MockService

from .._clock import START
from .._rows import each_of
from .._stock import stocked
from ..mock._paying import offer_of
from ._golden import load
from ._market import differences, items
from ._wire import Wire, error_of

PER_TOKEN = ("/token-signals", "/token-prices", "/signal-history", "/token-win-rate", "/token-avg-prices")
ALL = (*PER_TOKEN, "/top-performers", "/supported-tokens", "/aggregate-metrics")


@pytest.fixture(scope="module")
def bazaar() -> Iterator[Wire]:
    """Market data for nothing, no key, and a clock that stands still."""
    with MockService(seed=7, gaps=GapOptions(paywall="open"), clock=MockClock(START)) as server:
        stocked(server, START)
        yield Wire(server, None)


def good_body(path: str) -> dict[str, Any]:
    return items("BRETT") if path in PER_TOKEN else {"sortBy": "ROI"} if path == "/top-performers" else {}


def bought(wire: Wire, path: str, body: Any) -> Any:
    """The data of an answer, which must have the golden shape of its path, wrapper and all."""
    answer = wire.post(path, body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert differences(answer.json(), load(f"market{path.replace('-', '_')}.json")) == []
    assert answer.json()["success"] is True
    return answer.json()["data"]


def refusal(wire: Wire, path: str, body: Any) -> int:
    """The status of a refusal, which must have the golden shape."""
    answer = wire.post(path, body)
    assert answer.headers["content-type"] == "application/json"
    assert differences(answer.json(), load(f"market/error_{answer.status_code}.json")) == []
    assert answer.json()["success"] is False
    assert answer.json()["error"]
    return answer.status_code


def history(wire: Wire, **fields: Any) -> list[dict[str, Any]]:
    (result,) = bought(wire, "/signal-history", items("BRETT", **fields))["results"]
    assert result["signalCount"] == len(result["signals"])
    found: list[dict[str, Any]] = result["signals"]
    return found


@pytest.mark.long
@pytest.mark.rule("market.paths", "market.wrapper.success", "market.wrapper.statuses", "market.results")
@each_of("path", ALL)
def test_every_path_answers_a_post_with_a_json_body(bazaar: Wire, path: str) -> None:
    assert bought(bazaar, path, good_body(path))
    for method in ("GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        answer = bazaar(method, path, content=b"{}")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert method == "HEAD" or error_of(answer) == (405, "invalid_request")


@pytest.mark.rule("market.identifier.forms", "market.identifier.case")
@each_of("path", PER_TOKEN)
def test_a_token_may_be_named_in_three_ways_and_in_any_case(bazaar: Wire, path: str) -> None:
    (brett,) = bought(bazaar, "/token-prices", items("BRETT"))["results"]
    wanted = bought(bazaar, path, items("BRETT"))
    address = brett["tokenAddress"]
    assert re.fullmatch(r"0x[0-9a-fA-F]{40}", address)
    for name in (address, address.lower(), "based-brett", "Based-Brett", "brett", "bReTt"):
        assert bought(bazaar, path, items(name)) == wanted, name


@pytest.mark.rule("market.batch", "market.identifier.twice", "market.identifier.unknown", "market.wrapper.failure")
@each_of("path", PER_TOKEN)
def test_one_to_five_tokens(bazaar: Wire, path: str) -> None:
    """More of what is refused: test_market_requests."""
    five = ("BRETT", "TOSHI", "AERO", "DEGEN", "ETH")
    assert len(bought(bazaar, path, items(*five))["results"]) == 5
    assert len(bought(bazaar, path, items("ETH"))["results"]) == 1
    assert refusal(bazaar, path, items(*five, "SKI")) == refusal(bazaar, path, items("BRETT", "brett")) == 400
    assert refusal(bazaar, path, items("BRETT", "NOPE")) == 404


PRICES = [
    ("/token-signals", items("BRETT"), 50_000),
    ("/token-signals", items("BRETT", "ETH", "SKI"), 150_000),
    ("/token-prices", items("BRETT"), 30_000),
    ("/token-prices", items("BRETT", "of no token"), 60_000),
    ("/signal-history", items("BRETT"), 50_000),
    ("/signal-history", items("BRETT", "ETH"), 100_000),
    ("/token-win-rate", items("BRETT"), 30_000),
    ("/token-win-rate", items("BRETT", "ETH", "SKI", "AERO"), 120_000),
    ("/token-avg-prices", items("BRETT"), 20_000),
    ("/token-avg-prices", items("BRETT", "ETH", "SKI", "AERO", "TOSHI"), 100_000),
    ("/top-performers", {"sortBy": "ROI"}, 60_000),
    ("/top-performers", {"sortBy": "winRate", "limit": 1}, 60_000),
    ("/aggregate-metrics", {}, 60_000),
]


@pytest.mark.rule(
    "market.payment.required market.payment.body market.payment.scheme market.payment.key market.price.batch",
    "market.price.token-signals market.price.signal-history market.price.token-prices market.price.token-win-rate",
    "market.price.token-avg-prices market.price.top-performers market.price.aggregate-metrics",
)
@each_of(("path", "body", "micro_usd"), PRICES)
def test_unpaid_is_402_with_the_price(wire: Wire, path: str, body: Any, micro_usd: int) -> None:
    """In USDC, which has six decimals. The bearer key, there or not, makes no difference."""
    for who in (wire, wire.with_key(None), wire.with_key("of nobody")):
        answer = who.post(path, body)
        assert (answer.status_code, answer.json()) == (402, {})
        (way,) = offer_of(answer.headers)["accepts"]
        assert (way["scheme"], way["network"], way["amount"]) == ("exact", "eip155:8453", str(micro_usd))


@pytest.mark.rule("market.payment.key", "market.price.supported-tokens")
def test_the_list_of_tokens_is_free_and_needs_no_key(wire: Wire) -> None:
    stocked(wire.server, START)
    assert bought(wire.with_key(None), "/supported-tokens", {})["total"] > 100


@pytest.mark.rule("market.signals.count", "market.signals.limit")
def test_signals_are_ten_unless_asked_and_at_most_a_hundred(bazaar: Wire) -> None:
    def count(limit: Any) -> Any:
        (result,) = bought(bazaar, "/token-signals", {"tokens": [{"identifier": "BRETT"} | limit]})["results"]
        assert result["signalCount"] == len(result["signals"])
        return result["signalCount"]

    assert (count({}), count({"limit": 1}), count({"limit": 12})) == (10, 1, 12)
    assert 12 < count({"limit": 100}) <= 100


@pytest.mark.rule("market.times", "market.signals.record", "market.signals.kinds", "market.signals.formatted")
def test_a_signal_record(bazaar: Wire) -> None:
    found = history(bazaar)
    assert {record["signal"] for record in found} == {"BUY", "SELL", "WAITING FOR SIGNAL"}
    for record in found:
        assert record["reason"]
        assert record["signalPriceEth"] > 0
        assert record["signalPriceUsd"] > 0
        assert "$" in record["signalPriceFormatted"]
        assert "ETH" in record["signalPriceFormatted"]
        assert type(record["crossoverDetected"]) is bool
        assert record["consecutiveGreenCandles"] >= 0
        at = datetime.fromisoformat(record["createdAt"])
        assert at.tzinfo is UTC or at.utcoffset() is not None
        assert at <= datetime.fromtimestamp(START, UTC)


@pytest.mark.rule("market.signals.order")
def test_signals_are_newest_first(bazaar: Wire) -> None:
    for path in ("/token-signals", "/signal-history"):
        (result,) = bought(bazaar, path, items("BRETT"))["results"]
        times = [record["createdAt"] for record in result["signals"]]
        assert times == sorted(times, reverse=True)
        assert len(times) > 5


@pytest.mark.rule("market.history.start", "market.history.end", "market.history.dates")
def test_history_is_bounded_by_dates_that_count_themselves(bazaar: Wire) -> None:
    every = history(bazaar)
    newest, oldest = every[3]["createdAt"], every[-4]["createdAt"]
    assert history(bazaar, startDate=oldest) == every[:-3]
    assert history(bazaar, endDate=newest) == every[3:]
    assert history(bazaar, startDate=oldest, endDate=newest) == every[3:-3]
    assert history(bazaar, startDate=newest, endDate=newest) == [every[3]]


@pytest.mark.rule("market.history.type")
def test_history_is_filtered_by_type(bazaar: Wire) -> None:
    every = history(bazaar)
    assert history(bazaar, signalType="ALL") == every
    for kind in ("BUY", "SELL", "WAITING FOR SIGNAL"):
        found = history(bazaar, signalType=kind)
        assert found == [record for record in every if record["signal"] == kind]
        assert found


@pytest.mark.rule("market.history.cap")
def test_history_has_at_most_a_hundred() -> None:
    gaps = GapOptions(paywall="open")
    with MockService(seed=7, gaps=gaps, signals="scripted", clock=MockClock(START)) as mock:
        before = len(history(Wire(mock, None)))
        assert before < 100
        for _ in range(101 - before):
            mock.emit_signal(token="BRETT")
        (result,) = Wire(mock, None).post("/signal-history", items("BRETT")).json()["data"]["results"]
        assert result["signalCount"] == len(result["signals"]) == 100


@pytest.mark.rule("market.prices.rate")
def test_a_price_in_usd_is_the_one_in_ether_times_the_rate(bazaar: Wire) -> None:
    ether, brett = bought(bazaar, "/token-prices", items("ETH", "BRETT"))["results"]
    assert (ether["symbol"], ether["currentPriceEth"]) == ("ETH", 1.0)
    rate = ether["currentPriceUsd"]
    assert brett["currentPriceUsd"] == pytest.approx(brett["currentPriceEth"] * rate, rel=1e-6)


@pytest.mark.rule("market.prices.failure")
def test_prices_that_can_not_be_found_are_502(bazaar: Wire) -> None:
    bazaar.server.add_fault("status", route="/v1/token-prices", status=502, count=1)
    assert refusal(bazaar, "/token-prices", items("ETH", "BRETT")) == 502
    assert bought(bazaar, "/token-prices", items("ETH", "BRETT"))


@pytest.mark.rule("market.win-rate.null")
def test_win_rates_are_percentages_or_null(bazaar: Wire) -> None:
    symbols = [token["symbol"] for token in bought(bazaar, "/supported-tokens", {"limit": 340})["tokens"]]
    found = []
    for start in range(0, len(symbols), 5):
        found += bought(bazaar, "/token-win-rate", items(*symbols[start : start + 5]))["results"]
    rates = [result["winRate"] for result in found]
    assert [result["tokenSymbol"] for result in found] == symbols
    assert None in rates
    assert all(0 <= rate <= 100 for rate in rates if rate is not None)
    assert any(0 < rate < 100 for rate in rates if rate is not None)


@pytest.mark.rule("market.avg-prices.null")
def test_averages_are_null_without_trades(bazaar: Wire) -> None:
    brett, nobody = bought(bazaar, "/token-avg-prices", items("BRETT", "JOLTIG"))["results"]
    for name in ("averageBuyPrice", "averageSellPrice"):
        assert nobody[f"{name}ETH"] is None
        assert nobody[f"{name}USD"] is None
        assert 0 < brett[f"{name}ETH"] < brett[f"{name}USD"] < 1


@pytest.mark.rule("market.top.sort", "market.top.limit")
def test_top_performers_are_sorted_and_limited(bazaar: Wire) -> None:
    names = ("tokenAddress", "symbol", "name", "network")
    supported = bought(bazaar, "/supported-tokens", {"limit": 500})["tokens"]
    known = {token["tokenAddress"]: [token[name] for name in names] for token in supported}
    for sort_by in ("winRate", "ROI"):
        every = bought(bazaar, "/top-performers", {"sortBy": sort_by})["tokens"]
        assert len(every) == 300
        assert [token[sort_by] for token in every] == sorted((token[sort_by] for token in every), reverse=True)
        assert all(known[token["tokenAddress"]] == [token[name] for name in names] for token in every)
        assert bought(bazaar, "/top-performers", {"sortBy": sort_by, "limit": 3})["tokens"] == every[:3]
        assert bought(bazaar, "/top-performers", {"sortBy": sort_by, "limit": 300})["tokens"] == every


@pytest.mark.rule("market.aggregate.record", "market.aggregate.body")
def test_totals_are_taken_from_what_there_is(bazaar: Wire) -> None:
    data = bought(bazaar, "/aggregate-metrics", {})
    assert 0 < data["activeAgents"] < data["totalAgents"]
    assert 0 < data["totalProfitableTrades"] < data["totalTrades"]
    assert data["winRate"] == pytest.approx(100 * data["totalProfitableTrades"] / data["totalTrades"], abs=0.01)
    assert not [name for name, value in data.items() if isinstance(value, dict | list)]


@pytest.mark.rule("market.aggregate.negative")
def test_a_profit_may_be_a_loss(bazaar: Wire) -> None:
    bazaar.server.world.store.run("UPDATE positions SET entry_price_usd = 100 * entry_price_usd WHERE chain_id = 8453")
    data = bought(bazaar, "/aggregate-metrics", {})
    assert data["unrealizedProfitUSD"] < 0
    assert data["unrealizedProfitETH"] < 0


@pytest.mark.rule("market.supported.data", "market.supported.limit")
def test_supported_tokens_are_counted_and_limited(bazaar: Wire) -> None:
    first = bought(bazaar, "/supported-tokens", {})
    more = bought(bazaar, "/supported-tokens", {"limit": 500})
    assert (len(first["tokens"]), len(more["tokens"])) == (100, 500)
    assert more["tokens"][:100] == first["tokens"]
    assert first["total"] == more["total"] >= 500
    assert len(bought(bazaar, "/supported-tokens", {"limit": 1})["tokens"]) == 1
    assert {token["network"] for token in more["tokens"]} == {"base"}
    assert all(token["logo"].startswith("https://") for token in more["tokens"])


@pytest.mark.rule("market.signals.same")
def test_signals_agree_with_the_account_api(bazaar: Wire) -> None:
    emitted = bazaar.server.emit_signal(token="SKI", direction="SELL", price_usd=0.0725)
    key = bazaar.server.create_key(name="reader", scope="read-only").value
    (theirs,) = bazaar.with_key(key).get("/signals", chain=8453, limit=1).json()["data"]
    (result,) = bought(bazaar, "/token-signals", {"tokens": [{"identifier": "SKI", "limit": 1}]})["results"]
    (mine,) = result["signals"]
    assert theirs["id"] == emitted.id
    assert (result["tokenAddress"], mine["signal"]) == (theirs["token_address"], theirs["direction"])
    assert mine["signalPriceUsd"] == theirs["price_usd"] == 0.0725
    assert datetime.fromisoformat(mine["createdAt"]).timestamp() == theirs["timestamp"]


def test_what_is_no_path_is_not_found(bazaar: Wire) -> None:
    key = bazaar.server.create_key(name="any").value
    assert error_of(bazaar.with_key(key).post("/token-signal", items("BRETT"))) == (404, "not_found")
    assert bazaar.with_key(key).http.post(f"{bazaar.server.url}/token-signals", json={}).status_code in (401, 404)
