"""Rate limits and usage as the specification has them, shown on the mock over bare HTTP with its clock held still."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tradesdk_mock import MockClock, MockService

from .._clock import START
from ._wire import Wire, error_of, numbers

tenants = count(1)


@pytest.fixture(scope="module")
def still() -> Iterator[MockService]:
    """A server whose clock moves only when told to."""
    with MockService(seed=7, clock=MockClock(START)) as server:
        yield server


@pytest.fixture
def tenant() -> str:
    return f"limits-{next(tenants)}"


@pytest.fixture
def free(still: MockService, tenant: str) -> Wire:
    return Wire(still, still.create_key(plan="free", tenant=tenant).value)


@pytest.fixture
def pro(still: MockService, tenant: str) -> Wire:
    return Wire(still, still.create_key(plan="pro", tenant=tenant).value)


@pytest.mark.rule("limit.headers.limit", "limit.headers.remaining", "limit.rate.pro", "limit.rate.enterprise")
@pytest.mark.parametrize(("plan", "limit"), [("free", 60), ("pro", 300), ("enterprise", None)])
def test_each_plan_has_its_limit(still: MockService, plan: Any, limit: int | None) -> None:
    wire = Wire(still, still.create_key(plan=plan).value)
    (first, left, _), second = (numbers(wire.get("/account")) for _ in range(2))
    assert first > 300 if limit is None else first == limit
    assert (left, second[:2]) == (first - 1, (first, first - 2))


@pytest.mark.rule(
    "limit.rate.free limit.headers.limit limit.headers.remaining limit.headers.reset error.429 error.429.headers",
)
def test_the_limit_and_the_way_back(still: MockService, free: Wire, tenant: str) -> None:
    """The window begins with the first request in it; waiting as told is always enough, and never more than needed."""
    still.clock.advance(0.37)
    begun = int(still.clock.now())
    for left in reversed(range(60)):
        answer = free.get("/account")
        assert (answer.status_code, numbers(answer)) == (200, (60, left, begun + 60))
        assert "Retry-After" not in answer.headers
        still.clock.advance(0.5)
    second = still.create_key(tenant=tenant)
    assert numbers(free.with_key(second.value).get("/account"))[:2] == (60, 59), "each key has its own window"
    for later, wait in ((0, 30), (29.5, 1)):
        still.clock.advance(later)
        refused = free.get("/account")
        assert error_of(refused) == (429, "rate_limited")
        assert numbers(refused) == (60, 0, begun + 60)
        assert refused.headers["Retry-After"] == str(wait)
    still.clock.advance(1)
    still.clock.advance(7)
    assert numbers(free.get("/account")) == (60, 59, int(still.clock.now()) + 60)


@pytest.mark.long
@pytest.mark.rule("limit.rate.pro", "error.429")
def test_the_pro_plan_allows_three_hundred(pro: Wire) -> None:
    assert [pro.get("/account").status_code for _ in range(301)] == [200] * 300 + [429]


@pytest.mark.rule("limit.headers")
def test_every_answer_tells_the_limit(still: MockService, pro: Wire, tenant: str) -> None:
    path = f"/agents/{pro.create()['id']}"
    reader = pro.with_key(still.create_key(scope="read-only", tenant=tenant).value)
    left = numbers(pro.get("/account"))[1]
    for step, (answer, status) in enumerate(
        [
            (pro.patch(path, {}), 200),
            (pro("PATCH", path, content=b"x"), 400),
            (pro.get("/agents/unknown"), 404),
            (pro.get("/nothing"), 404),
            (pro("PUT", "/agents"), 405),
            (pro.get("/agents", limit=0), 422),
            (pro.get("/signals"), 400),
            (pro.delete(path), 204),
        ],
        start=1,
    ):
        assert (answer.status_code, *numbers(answer)[:2]) == (status, 300, left - step)
        assert "Retry-After" not in answer.headers
    refused = reader.post("/agents", {})
    assert (refused.status_code, *numbers(refused)[:2]) == (403, 300, 299)


@pytest.mark.rule("limit.upgrade")
def test_an_upgrade_counts_at_once(still: MockService, free: Wire, tenant: str) -> None:
    assert numbers(free.get("/account"))[:2] == (60, 59)
    still.set_plan(tenant, "pro")
    answer = free.get("/account")
    assert (numbers(answer)[:2], answer.json()["plan"]) == ((300, 298), "pro")


@pytest.mark.rule("limit.downgrade")
@pytest.mark.parametrize("taken_back", [False, True])
def test_a_downgrade_waits_for_the_next_period(still: MockService, pro: Wire, tenant: str, taken_back: bool) -> None:
    reset = pro.get("/account/usage").json()["reset_at"]
    still.set_plan(tenant, "free")
    for later in (0, reset - still.clock.now() - 1):
        still.clock.advance(later)
        assert numbers(pro.get("/account"))[0] == 300
    if taken_back:
        still.set_plan(tenant, "enterprise")
    still.clock.set(reset)
    answer = pro.get("/account")
    assert (numbers(answer)[0] == 60, answer.json()["plan"]) == (
        not taken_back,
        "enterprise" if taken_back else "free",
    )


@pytest.mark.rule("usage.quota.fields", "usage.reset_at")
def test_usage_counts_requests_and_agents_until_its_reset(still: MockService, pro: Wire) -> None:
    before = pro.get("/account/usage").json()
    assert (before["requests"]["used"], before["agents"]["used"]) == (1, 0)
    agent = pro.create()["id"]  # two requests: its wallet, and itself
    after = pro.get("/account/usage").json()
    assert after == before | {
        "requests": before["requests"] | {"used": 4},
        "agents": before["agents"] | {"used": 1},
    }
    still.clock.set(after["reset_at"] - 1)
    assert pro.get("/account/usage").json() == after | {"requests": before["requests"] | {"used": 5}}
    still.clock.advance(1)
    later = pro.get("/account/usage").json()
    assert (later["requests"]["used"], later["agents"]["used"]) == (1, 1)
    assert later["reset_at"] > after["reset_at"]
    pro.delete(f"/agents/{agent}")
    assert pro.get("/account/usage").json()["agents"]["used"] == 0


@pytest.mark.rule("usage.reset_at")
def test_refused_requests_are_not_counted(still: MockService, free: Wire) -> None:
    for _ in range(63):
        free.get("/nothing")
    still.clock.advance(60)
    assert free.get("/account/usage").json()["requests"]["used"] == 61
