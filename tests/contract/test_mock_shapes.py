"""The mock's answers against JSON typed by hand from the specification: exactly its keys and types, everywhere."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from .._clock import START
from .._rows import each_of
from ._golden import LISTS, RECORDS, errors, load
from ._wire import Wire, proof


def assert_same_shape(answer: Any, golden: Any, at: str = "$") -> None:
    """The same keys and JSON types. ``null`` stands only where the golden file has it; a float may be whole."""
    if isinstance(golden, dict):
        assert isinstance(answer, dict), f"{at} is not an object"
        assert sorted(answer) == sorted(golden), f"{at} has other keys"
        for key in golden:
            assert_same_shape(answer[key], golden[key], f"{at}.{key}")
    elif isinstance(golden, list):
        assert isinstance(answer, list), f"{at} is not an array"
        for index, item in enumerate(answer):
            assert_same_shape(item, like(item, golden), f"{at}[{index}]")
    elif isinstance(golden, float):
        assert type(answer) in (int, float), f"{at} is not a number"
    else:
        assert type(answer) is type(golden), f"{at} is {type(answer).__name__}, not {type(golden).__name__}"


def like(item: Any, golden: list[Any]) -> Any:
    """The golden item to compare with: of the same status where there is one, because an open trade has nulls."""
    if isinstance(item, dict) and "status" in item:
        return next((one for one in golden if one["status"] == item["status"]), golden[0])
    return golden[0]


@dataclass(frozen=True)
class Case:
    golden: str
    ask: Callable[[Wire], httpx.Response]
    status: tuple[int, ...] = (200,)


RISK = {"position_size_pct": 5.5, "stop_loss_pct": 3.25, "trailing_stop_pct": 2.5, "take_profit_pct": 12.75}
WHOLE: dict[str, Any] = {"risk": RISK, "min_confidence": 0.9, "max_positions": 6}


def one(wire: Wire, path: str, **query: Any) -> str:
    """The id of the first thing in a list."""
    return str(wire.get(path, limit=1, **query).json()["data"][0]["id"])


def holding(wire: Wire) -> str:
    """A wallet with tokens of open positions."""
    return str(wire.get(f"/agents/{wire.get('/positions', limit=1).json()['data'][0]['agent_id']}").json()["wallet_id"])


def post_agent(wire: Wire, body: dict[str, Any]) -> httpx.Response:
    wallet = (
        wire.connect(private_key="0x" + "2e" * 32)
        if not wire.get("/wallets").json()["data"]
        else one(wire, "/wallets", chain_id=8453)
    )
    return wire.post("/agents", {"name": "shape", "wallet_id": wallet, "chain_id": 8453} | body)


def last_page(wire: Wire, path: str, **query: Any) -> httpx.Response:
    """Walk to the page that has no cursor."""
    answer = wire.get(path, limit=100, **query)
    while cursor := answer.json().get("next_cursor"):
        answer = wire.get(path, limit=100, cursor=cursor, **query)
    assert answer.json()["data"], "the last page should show a shape"
    return answer


CREATED = (200, 201)  # the specification does not say which
CASES = [
    Case("account.json", lambda w: w.get("/account")),
    Case("usage.json", lambda w: w.get("/account/usage")),
    Case("agents_page.json", lambda w: w.get("/agents", limit=1)),
    Case("agents_page_last.json", lambda w: last_page(w, "/agents")),
    Case("agent_created.json", lambda w: post_agent(w, WHOLE), CREATED),
    Case("agent_created_without_risk.json", lambda w: post_agent(w, {}), CREATED),
    Case("agent.json", lambda w: w.get(f"/agents/{post_agent(w, WHOLE).json()['id']}")),
    Case(
        "agent_updated.json", lambda w: w.patch(f"/agents/{post_agent(w, WHOLE).json()['id']}", {"name": "b"}), CREATED
    ),
    Case("wallet.json", lambda w: w.post("/wallets", proof(private_key="0x" + "3f" * 32)), CREATED),
    Case("wallets_page.json", lambda w: w.get("/wallets", limit=1)),
    Case("wallets_page_last.json", lambda w: last_page(w, "/wallets")),
    Case("wallet_balance.json", lambda w: w.get(f"/wallets/{holding(w)}/balance")),
    Case("trades_page.json", lambda w: w.get("/trades", limit=100)),
    Case("trades_page_last.json", lambda w: last_page(w, "/trades", status="closed")),
    Case("trade_open.json", lambda w: w.get(f"/trades/{one(w, '/trades', status='open')}")),
    Case("trade_closed.json", lambda w: w.get(f"/trades/{one(w, '/trades', status='closed')}")),
    Case("positions_page.json", lambda w: w.get("/positions", limit=1)),
    Case("positions_page_last.json", lambda w: last_page(w, "/positions")),
    Case("signals_latest.json", lambda w: w.get("/signals", chain=8453)),
    Case("signals_history_page.json", lambda w: w.get("/signals/history", chain=8453, limit=1)),
    Case("signals_history_page_last.json", lambda w: last_page(w, "/signals/history", chain=56)),
    Case("page_empty.json", lambda w: w.get("/trades", agent_id="agt_of_nobody")),
]


@pytest.mark.rule(
    "transport.response-json transport.unix-seconds risk.optional agents.list agents.get wallets.list",
    "trade.open.nulls trades.list trades.get positions.list signals.latest signals.history account.get usage.get",
)
@each_of("case", CASES, ids=lambda case: case.golden)
def test_answer_has_the_golden_shape(case: Case, populated: Wire) -> None:
    answer = case.ask(populated)
    assert answer.status_code in case.status, answer.text
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert_same_shape(answer.json(), load(case.golden))
    if load(case.golden).get("data") == []:
        assert answer.json() == load(case.golden)
    for name in {"data", "token_balances"} & set(load(case.golden)):
        assert answer.json()[name] or load(case.golden)[name] == [], "an empty list shows no shape"


@pytest.mark.rule("agent.delete.idle")
def test_deleted_agent_has_no_body(wire: Wire) -> None:
    answer = wire.delete(f"/agents/{wire.create()['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-type" not in answer.headers


def test_the_usual_headers_come_with_an_answer(wire: Wire) -> None:
    answer = wire.get("/account")
    assert set(load("headers.json")) <= {name.title().replace("Ratelimit", "RateLimit") for name in answer.headers}
    assert answer.headers["content-type"] == load("headers.json")["Content-Type"]


def provoke_401(wire: Wire) -> httpx.Response:
    return wire.with_key("nobody-knows-this-key").get("/account")


def provoke_403(wire: Wire) -> httpx.Response:
    reader = wire.server.create_key(name="reader", scope="read-only", tenant="populated")
    return wire.with_key(reader.value).post("/agents", {"name": "a", "wallet_id": "w", "chain_id": 8453})


def provoke_409(wire: Wire) -> httpx.Response:
    agent = post_agent(wire, {}).json()["id"]
    wire.server.start_agent(agent)
    return wire.delete(f"/agents/{agent}")


def provoke_429(wire: Wire) -> httpx.Response:
    small = wire.with_key(wire.server.create_key(plan="free", tenant="small").value)
    return [small.get("/account") for _ in range(61)][-1]


def provoke_500(wire: Wire) -> httpx.Response:
    """A table of the state is gone, which no code expects."""
    wire.server.world.store.run("ALTER TABLE trades RENAME TO lost")
    return wire.get("/trades")


def provoke_503(wire: Wire) -> httpx.Response:
    """Another process holds the state file, and the server does not wait long for it."""
    store = wire.server.world.store
    store.run("PRAGMA busy_timeout = 20")
    with closing(sqlite3.connect(str(store.path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = wire.get("/account")
    assert answer.headers["Retry-After"] == "1"
    assert wire.get("/account").is_success
    return answer


PROVOKED: dict[str, Callable[[Wire], httpx.Response]] = {
    "errors/400_invalid_request.json": lambda w: post_agent(w, {"chain_id": None}),
    "errors/400_invalid_signature.json": lambda w: w.post("/wallets", proof() | {"signature": "0x" + "00" * 65}),
    "errors/401_unauthorized.json": provoke_401,
    "errors/403_forbidden.json": provoke_403,
    "errors/404_not_found.json": lambda w: w.get("/trades/nobody"),
    "errors/409_conflict.json": provoke_409,
    "errors/422_validation_error.json": lambda w: post_agent(w, {"risk": {"position_size_pct": 101}}),
    "errors/429_rate_limited.json": provoke_429,
    "errors/500_internal_error.json": provoke_500,
    "errors/503_service_unavailable.json": provoke_503,
}
BREAKING = {"errors/500_internal_error.json", "errors/503_service_unavailable.json"}


@pytest.fixture
def breakable(bare_http: httpx.Client, tmp_path: Path) -> Iterator[Wire]:
    """A server of its own, with a state file that can be harmed."""
    with MockServer(seed=7, db=tmp_path / "state.sqlite3", clock=MockClock(START)) as server:
        yield Wire(server, bare_http, server.create_key(tenant="broken").value)


@pytest.mark.rule(
    "transport.response-json agent.delete.active wallets.connect.bad-signature auth.invalid auth.scope.forbidden",
    "error.400.malformed error.400.signature error.401 error.403 error.404.missing error.409",
    "error.422.position-size error.429 error.500 error.503",
)
@pytest.mark.parametrize("name", errors())
def test_error_has_the_golden_shape(name: str, request: pytest.FixtureRequest) -> None:
    answer = PROVOKED[name](request.getfixturevalue("breakable" if name in BREAKING else "populated"))
    golden = load(name)
    assert answer.status_code == int(name.removeprefix("errors/")[:3]), answer.text
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert_same_shape(answer.json(), golden)
    assert answer.json()["error"]["code"] == golden["error"]["code"]
    assert answer.json()["error"]["message"]
    if answer.status_code == 429:
        expected = load("errors/429_rate_limited.headers.json")
        assert {key: answer.headers[key].isdigit() for key in expected} == dict.fromkeys(expected, True)
        assert answer.headers["X-RateLimit-Remaining"] == "0"
        assert answer.headers["X-RateLimit-Limit"] == "60"
        assert 0 < int(answer.headers["Retry-After"]) <= 60


def test_every_golden_file_is_compared() -> None:
    assert {case.golden for case in CASES} == set(RECORDS) | set(LISTS)
    assert set(PROVOKED) == set(errors())
