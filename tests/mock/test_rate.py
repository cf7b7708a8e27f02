"""The limit of requests a minute, and the account's own counts, on a clock that only the test moves."""

from __future__ import annotations

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from ._support import START, add_agent, add_wallet, client, error, ok


def standing(answer: httpx.Response) -> tuple[int, int, int]:
    return (
        int(answer.headers["x-ratelimit-limit"]),
        int(answer.headers["x-ratelimit-remaining"]),
        int(answer.headers["x-ratelimit-reset"]),
    )


@pytest.mark.parametrize(("plan", "limit"), [("free", 60), ("pro", 300), ("enterprise", 3_000)])
def test_each_plan_has_its_limit(server: MockServer, plan: str, limit: int) -> None:
    with client(server, f"mock_full_{plan}_x") as http:
        assert standing(http.get("/v1/account")) == (limit, limit - 1, START + 60)
        assert standing(http.get("/v1/account")) == (limit, limit - 2, START + 60)


def test_the_limit_and_the_way_back(server: MockServer) -> None:
    with client(server, "mock_full_free_x") as http:
        for left in range(59, -1, -1):
            answer = http.get("/v1/account")
            assert (answer.status_code, standing(answer)) == (200, (60, left, START + 60))
            server.clock.advance(0.5)
        refused = http.get("/v1/account")
        error(refused, 429, "rate_limited")
        assert standing(refused) == (60, 0, START + 60)
        assert refused.headers["retry-after"] == "30"
        server.clock.advance(29.9)
        refused = http.get("/v1/account")
        error(refused, 429, "rate_limited")
        assert refused.headers["retry-after"] == "1"
        server.clock.advance(0.1)
        # The window begins with the first request in it.
        server.clock.advance(7)
        assert standing(http.get("/v1/account")) == (60, 59, START + 127)


def test_waiting_as_told_is_always_enough(server: MockServer) -> None:
    server.clock.advance(0.37)
    with client(server, "mock_full_free_x") as http:
        for _ in range(60):
            ok(http.get("/v1/account"))
        wait = int(http.get("/v1/account").headers["retry-after"])
        server.clock.advance(wait)
        ok(http.get("/v1/account"))


def test_an_answer_that_is_not_counted_shows_the_window_as_it_is(server: MockServer, api: httpx.Client) -> None:
    assert standing(api.get("/v1/account")) == (300, 299, START + 60)
    server.add_fault("status", status=503)
    for later, told in ((0, (299, 60)), (59.9, (299, 60)), (0.1, (300, 120)), (-200, (300, -80))):
        server.clock.set(server.clock.now() + later, allow_backwards=True)
        answer = api.get("/v1/account")
        assert (answer.status_code, standing(answer)) == (503, (300, told[0], START + told[1]))


def test_keys_of_one_tenant_are_counted_apart(api: httpx.Client, reader: httpx.Client) -> None:
    api.get("/v1/account")
    api.get("/v1/account")
    assert standing(reader.get("/v1/account"))[1] == 299
    assert standing(api.get("/v1/account"))[1] == 297


def test_every_rest_answer_carries_the_headers(api: httpx.Client, reader: httpx.Client) -> None:
    wallet = add_wallet(api)
    agent = add_agent(api, wallet)["id"]
    left = standing(api.get("/v1/agents"))[1]
    answers = [
        api.patch(f"/v1/agents/{agent}", json={}),
        api.patch(f"/v1/agents/{agent}", content=b"x"),
        api.get("/v1/agents/unknown"),
        api.get("/v1/nothing"),
        api.put("/v1/agents"),
        api.get("/v1/agents?limit=0"),
        api.delete(f"/v1/agents/{agent}"),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 404, 404, 405, 422, 204]
    assert [standing(answer)[1] for answer in answers] == [left - step for step in range(1, 8)]
    forbidden = reader.post("/v1/agents", json={})
    assert (forbidden.status_code, standing(forbidden)[1]) == (403, 299)


def test_callers_without_a_key_are_told_of_an_untouched_window(anyone: httpx.Client) -> None:
    for _ in range(3):
        assert standing(anyone.get("/v1/account")) == (60, 60, START + 60)


def test_control_calls_do_not_count(server: MockServer, api: httpx.Client) -> None:
    left = standing(api.get("/v1/account"))[1]
    for _ in range(5):
        answer = api.get("/_mock/status")
        assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
    assert standing(api.get("/v1/account"))[1] == left - 1


def test_a_clock_that_was_set_back_starts_a_new_window(server: MockServer, api: httpx.Client) -> None:
    api.get("/v1/account")
    server.clock.set(START - 1_000, allow_backwards=True)
    assert standing(api.get("/v1/account")) == (300, 299, START - 940)


def test_usage_counts_requests_but_not_refused_ones(server: MockServer) -> None:
    with client(server, "mock_full_free_x") as http:
        assert ok(http.get("/v1/account/usage")) == {
            "requests": {"used": 1, "limit": 10_000},
            "agents": {"used": 0, "limit": 3},
            "reset_at": START + 30 * 86_400,
        }
        for _ in range(62):
            http.get("/v1/nothing")
        server.clock.advance(60)
        assert ok(http.get("/v1/account/usage"))["requests"]["used"] == 61


@pytest.mark.parametrize(("plan", "requests", "agents"), [("pro", 100_000, 25), ("enterprise", 10_000_000, 1_000)])
def test_quotas_of_the_other_plans(server: MockServer, plan: str, requests: int, agents: int) -> None:
    with client(server, f"mock_full_{plan}_x") as http:
        usage = ok(http.get("/v1/account/usage"))
    assert (usage["requests"]["limit"], usage["agents"]["limit"]) == (requests, agents)


def test_usage_counts_agents(api: httpx.Client) -> None:
    agent = add_agent(api, add_wallet(api))["id"]
    assert ok(api.get("/v1/account/usage"))["agents"]["used"] == 1
    api.delete(f"/v1/agents/{agent}")
    assert ok(api.get("/v1/account/usage"))["agents"]["used"] == 0


def test_usage_starts_again_with_the_period(server: MockServer, api: httpx.Client) -> None:
    for _ in range(5):
        api.get("/v1/account")
    reset_at = ok(api.get("/v1/account/usage"))["reset_at"]
    server.clock.set(reset_at - 1)
    assert ok(api.get("/v1/account/usage"))["requests"]["used"] == 7
    server.clock.set(reset_at)
    usage = ok(api.get("/v1/account/usage"))
    assert (usage["requests"]["used"], usage["reset_at"]) == (1, reset_at + 30 * 86_400)
    # Periods without a request are skipped.
    server.clock.advance(75 * 86_400)
    usage = ok(api.get("/v1/account/usage"))
    assert (usage["requests"]["used"], usage["reset_at"]) == (1, reset_at + 90 * 86_400)


def test_an_upgrade_holds_at_once(server: MockServer) -> None:
    with client(server, "mock_full_free_x") as http:
        assert standing(http.get("/v1/account")) == (60, 59, START + 60)
        server.set_plan("x", "pro")
        assert standing(http.get("/v1/account")) == (300, 298, START + 60)
        assert ok(http.get("/v1/account"))["plan"] == "pro"


def test_a_downgrade_waits_for_the_period_to_end(server: MockServer, api: httpx.Client) -> None:
    reset_at = ok(api.get("/v1/account/usage"))["reset_at"]
    server.set_plan("main", "free")
    assert ok(api.get("/v1/account"))["plan"] == "pro"
    server.clock.set(reset_at - 1)
    assert standing(api.get("/v1/account"))[0] == 300
    server.clock.set(reset_at)
    assert standing(api.get("/v1/account"))[0] == 60
    assert ok(api.get("/v1/account"))["plan"] == "free"


def test_a_later_upgrade_takes_a_downgrade_back(server: MockServer, api: httpx.Client) -> None:
    reset_at = ok(api.get("/v1/account/usage"))["reset_at"]
    server.set_plan("main", "free")
    server.set_plan("main", "enterprise")
    server.clock.set(reset_at)
    assert ok(api.get("/v1/account"))["plan"] == "enterprise"


def test_a_plan_may_be_set_before_the_first_request(server: MockServer, api: httpx.Client) -> None:
    server.set_plan("main", "enterprise")
    assert ok(api.get("/v1/account"))["plan"] == "enterprise"


def test_dates_follow_the_clock(server: MockServer, api: httpx.Client) -> None:
    assert api.get("/v1/account").headers["date"] == "Fri, 15 Jan 2027 08:00:00 GMT"
    server.clock.advance(3_600)
    assert api.get("/v1/nothing").headers["date"] == "Fri, 15 Jan 2027 09:00:00 GMT"
    assert api.get("/_mock/status").headers["date"] == "Fri, 15 Jan 2027 09:00:00 GMT"


def test_a_client_can_wait_on_the_servers_clock(server: MockServer) -> None:
    clock: MockClock = server.clock
    with client(server, "mock_full_free_x") as http:
        for _ in range(60):
            ok(http.get("/v1/account"))
        clock.sleep(int(http.get("/v1/account").headers["retry-after"]))
        ok(http.get("/v1/account"))
