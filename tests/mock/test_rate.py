"""The limit of requests a minute and the account's own counts, beyond the rules: tests/contract/test_service_limits."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tradesdk_mock import MockClock, MockService

from ._http import START, client, error, in_process, ok


def standing(answer: httpx.Response) -> tuple[int, int, int]:
    limit, remaining, reset = (int(answer.headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining", "reset"))
    return limit, remaining, reset


@pytest.mark.parametrize(
    ("plan", "limit", "requests", "agents"),
    [("free", 60, 10_000, 3), ("pro", 300, 100_000, 25), ("enterprise", 3_000, 10_000_000, 1_000)],
)
def test_each_plan_has_its_limits(server: MockService, plan: str, limit: int, requests: int, agents: int) -> None:
    with client(server, f"mock_full_{plan}_x") as http:
        answer = http.get("/v1/account/usage")
        assert standing(answer) == (limit, limit - 1, START + 60)
        assert ok(answer) == {
            "requests": {"used": 1, "limit": requests},
            "agents": {"used": 0, "limit": agents},
            "reset_at": START + 30 * 86_400,
        }


def test_an_answer_that_is_not_counted_shows_the_window_as_it_is(server: MockService, api: httpx.Client) -> None:
    assert standing(api.get("/v1/account")) == (300, 299, START + 60)
    server.add_fault("status", status=503)
    for later, told in ((0, (299, 60)), (59.9, (299, 60)), (0.1, (300, 120)), (-200, (300, -80))):
        server.clock.set(server.clock.now() + later, allow_backwards=True)
        answer = api.get("/v1/account")
        assert (answer.status_code, standing(answer)) == (503, (300, told[0], START + told[1]))


def test_callers_without_a_key_are_told_of_an_untouched_window(anyone: httpx.Client) -> None:
    for _ in range(3):
        assert standing(anyone.get("/v1/account")) == (60, 60, START + 60)


def test_control_calls_do_not_count(api: httpx.Client) -> None:
    left = standing(api.get("/v1/account"))[1]
    for _ in range(5):
        answer = api.get("/_mock/status")
        assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
    assert standing(api.get("/v1/account"))[1] == left - 1


def test_a_clock_that_was_set_back_starts_a_new_window(server: MockService, api: httpx.Client) -> None:
    api.get("/v1/account")
    server.clock.set(START - 1_000, allow_backwards=True)
    assert standing(api.get("/v1/account")) == (300, 299, START - 940)


def test_periods_without_a_request_are_skipped(server: MockService, api: httpx.Client) -> None:
    server.clock.advance(105 * 86_400)
    usage = ok(api.get("/v1/account/usage"))
    assert (usage["requests"]["used"], usage["reset_at"]) == (1, START + 105 * 86_400 + 30 * 86_400)
    server.clock.advance(75 * 86_400)
    usage = ok(api.get("/v1/account/usage"))
    assert (usage["requests"]["used"], usage["reset_at"]) == (1, START + (105 + 90) * 86_400)


def test_a_plan_may_be_set_before_the_first_request(server: MockService, api: httpx.Client) -> None:
    server.set_plan("main", "enterprise")
    assert ok(api.get("/v1/account"))["plan"] == "enterprise"


def test_dates_follow_the_clock(server: MockService, api: httpx.Client) -> None:
    assert api.get("/v1/account").headers["date"] == "Fri, 15 Jan 2027 08:00:00 GMT"
    server.clock.advance(3_600)
    for path in ("/v1/nothing", "/_mock/status"):
        assert api.get(path).headers["date"] == "Fri, 15 Jan 2027 09:00:00 GMT"


def test_a_client_can_wait_on_the_servers_clock(server: MockService) -> None:
    clock: MockClock = server.clock
    with client(server, "mock_full_free_x") as http:
        for _ in range(60):
            ok(http.get("/v1/account"))
        refused = http.get("/v1/account")
        error(refused, 429, "rate_limited")
        clock.sleep(int(refused.headers["retry-after"]))
        ok(http.get("/v1/account"))


def test_only_a_reset_by_another_process_begins_a_window_anew(tmp_path: Path) -> None:
    clock = MockClock(START)
    path = tmp_path / "world"
    with MockService(db=path, clock=clock) as one, MockService(db=path) as two, in_process(two) as http:
        for change, left in ((None, 299), (one.create_key, 298), (one.reset, 299), (one.create_key, 298)):
            if change is not None:
                change()
            assert http.get("/v1/account").headers["x-ratelimit-remaining"] == str(left)
