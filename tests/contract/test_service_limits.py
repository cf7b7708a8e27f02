"""Rate limits and usage as the specification has them, shown on the mock over bare HTTP with its clock held still."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from .._clock import START
from ._wire import Wire, error_of

accounts = count(1)
HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


@pytest.fixture(scope="module")
def still() -> Iterator[MockServer]:
    """A server whose clock moves only when told to."""
    with MockServer(seed=7, clock=MockClock(START)) as server:
        yield server


def account(still: MockServer, http: httpx.Client, plan: Any) -> tuple[Wire, str]:
    tenant = f"limits-{next(accounts)}"
    key = still.create_key(name="bot", scope="full-access", plan=plan, tenant=tenant)
    return Wire(still, http, key.value), tenant


def numbers(answer: httpx.Response) -> tuple[int, int, int]:
    limit, remaining, reset = (int(answer.headers[name]) for name in HEADERS)
    return limit, remaining, reset


def use_up(wire: Wire) -> httpx.Response:
    """Ask until the free plan's window is used up; the refusal."""
    answers = [wire.get("/account") for _ in range(61)]
    assert answers[-1].status_code == 429
    return answers[-1]


@pytest.mark.rule("error.429", "limit.rate.free", "limit.rate.pro", "limit.headers.limit", "limit.headers.remaining")
@pytest.mark.parametrize(("plan", "limit"), [("free", 60), ("pro", 300)])
def test_plan_limits_requests_per_minute(still: MockServer, bare_http: httpx.Client, plan: str, limit: int) -> None:
    wire, _ = account(still, bare_http, plan)
    for left in reversed(range(limit)):
        answer = wire.get("/account")
        assert answer.status_code == 200
        assert numbers(answer)[:2] == (limit, left)
    refused = wire.get("/account")
    assert error_of(refused) == (429, "rate_limited")
    assert numbers(refused)[:2] == (limit, 0)


@pytest.mark.rule("limit.rate.enterprise")
def test_enterprise_has_a_limit_of_its_own(still: MockServer, bare_http: httpx.Client) -> None:
    wire, _ = account(still, bare_http, "enterprise")
    assert numbers(wire.get("/account"))[0] > 300


@pytest.mark.rule("error.429.headers", "limit.headers.reset")
def test_the_window_ends_when_the_headers_say(still: MockServer, bare_http: httpx.Client) -> None:
    wire, _ = account(still, bare_http, "free")
    _, _, reset = numbers(wire.get("/account"))
    now = still.clock.now()
    assert now < reset <= now + 60
    answer = use_up(wire)
    wait = int(answer.headers["Retry-After"])
    assert wait >= reset - now
    still.clock.advance(reset - now - 1)
    assert wire.get("/account").status_code == 429
    still.clock.advance(wait - (reset - now - 1))
    answer = wire.get("/account")
    assert answer.status_code == 200
    assert numbers(answer)[:2] == (60, 59)


@pytest.mark.rule("limit.rate.free")
def test_each_key_has_its_own_window(still: MockServer, bare_http: httpx.Client) -> None:
    wire, tenant = account(still, bare_http, "free")
    use_up(wire)
    second = still.create_key(name="second", scope="full-access", tenant=tenant)
    assert numbers(wire.with_key(second.value).get("/account"))[:2] == (60, 59)


@pytest.mark.rule("limit.headers")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/account", 200),
        ("GET", "/trades", 200),
        ("GET", "/trades/nobody", 404),
        ("POST", "/agents", 400),
        ("GET", "/signals", 400),
        ("DELETE", "/agents/nobody", 404),
    ],
)
def test_every_answer_tells_the_limit(
    still: MockServer, bare_http: httpx.Client, method: str, path: str, status: int
) -> None:
    wire, _ = account(still, bare_http, "pro")
    answer = wire(method, path)
    assert answer.status_code == status
    limit, remaining, reset = numbers(answer)
    assert (limit, remaining) == (300, 299)
    assert reset > still.clock.now()
    assert "Retry-After" not in answer.headers


@pytest.mark.rule("limit.upgrade")
def test_an_upgrade_counts_at_once(still: MockServer, bare_http: httpx.Client) -> None:
    wire, tenant = account(still, bare_http, "free")
    assert numbers(wire.get("/account"))[0] == 60
    still.set_plan(tenant, "pro")
    assert numbers(wire.get("/account"))[0] == 300
    assert wire.get("/account").json()["plan"] == "pro"


@pytest.mark.rule("limit.downgrade")
def test_a_downgrade_waits_for_the_next_period(still: MockServer, bare_http: httpx.Client) -> None:
    wire, tenant = account(still, bare_http, "pro")
    reset = wire.get("/account/usage").json()["reset_at"]
    still.set_plan(tenant, "free")
    assert numbers(wire.get("/account"))[0] == 300
    still.clock.advance(reset - still.clock.now() - 1)
    assert numbers(wire.get("/account"))[0] == 300
    still.clock.advance(2)
    assert numbers(wire.get("/account"))[0] == 60
    assert wire.get("/account").json()["plan"] == "free"


@pytest.mark.rule("usage.quota.fields", "usage.reset_at")
def test_usage_counts_requests_and_agents_until_its_reset(still: MockServer, bare_http: httpx.Client) -> None:
    wire, _ = account(still, bare_http, "pro")
    before = wire.get("/account/usage").json()
    assert before["agents"]["used"] == 0
    assert before["reset_at"] > still.clock.now()
    wire.create()  # two requests: its wallet, and itself
    after = wire.get("/account/usage").json()
    assert after["requests"]["used"] == before["requests"]["used"] + 3
    assert after["agents"] == before["agents"] | {"used": 1}
    assert after["requests"]["limit"] == before["requests"]["limit"] > 0
    assert after["agents"]["limit"] > 0
    still.clock.advance(after["reset_at"] - still.clock.now() + 1)
    later = wire.get("/account/usage").json()
    assert later["requests"]["used"] < after["requests"]["used"]
    assert later["agents"]["used"] == 1
    assert later["reset_at"] > after["reset_at"]
