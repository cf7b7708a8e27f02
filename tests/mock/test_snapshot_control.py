"""Snapshots over HTTP, and the market's scenario: chosen, kept, shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tradesdk_mock import MockClock, MockServer, MockServerError, MockService, pytest_plugin
from tradesdk_mock.api.validation import MAX_BODY
from tradesdk_mock.control.http import MAX_STATE
from tradesdk_mock.core.messages import Request

from ._support import READ, START, add_agent, add_wallet, client, in_process, ok, walk

STATE = "application/vnd.sqlite3"


def test_over_http() -> None:
    with MockServer(clock=MockClock(START), signals="scripted", scenario="quiet") as server:
        with client(server) as http:
            add_wallet(http)
            taken = http.get("/_mock/snapshot")
            assert (taken.status_code, taken.headers["content-type"]) == (200, STATE)
            assert int(taken.headers["content-length"]) == len(taken.content)
            server.reset(seed=99, scenario="crash")
            back = ok(http.post("/_mock/restore", content=taken.content, headers={"content-type": STATE}))
            assert back == server.status()
            assert (back["seed"], back["scenario"], back["tenants"]) == (7, "quiet", ["main"])
            assert len(walk(http, "/v1/wallets")) == 1
            for content in (b"", b"garbage" * 100, taken.content[:-5_000]):
                refused = http.post("/_mock/restore", content=content)
                assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")
                assert "the snapshot can't be restored" in refused.json()["error"]["message"]
            assert (http.get("/_mock/restore").status_code, http.post("/_mock/snapshot").status_code) == (405, 405)
            assert len(walk(http, "/v1/wallets")) == 1
            away = http.get("/_mock/snapshot", headers={"origin": "https://elsewhere.example"})
            assert away.status_code == 403
        with client(server, READ) as http:
            assert http.get("/v1/wallets").status_code == 200


def test_a_state_may_be_far_longer_than_other_bodies() -> None:
    with MockService(clock=MockClock(START)) as mock:
        longest = mock.pipeline.longest_body
        assert longest("/_mock/restore", "127.0.0.1") == longest("/_mock/restore", "::1") == MAX_STATE
        assert longest("/_mock/restore", "192.0.2.7") == longest("/_mock/reset", "127.0.0.1") == MAX_BODY
        reply = mock.pipeline.answer(Request("POST", "/_mock/restore", content=None, client="127.0.0.1"))
        assert (reply.status, b"longer" in bytes(reply.body)) == (400, True)  # type: ignore[arg-type]
        far = Request("POST", "/_mock/restore", content=mock.snapshot(), client="192.0.2.7")
        assert mock.pipeline.answer(far).status == 403


def test_a_long_state_over_a_socket_and_in_process() -> None:
    with MockService(clock=MockClock(START), signals="scripted") as mock, in_process(mock) as http:
        wallet = add_wallet(http)
        for _ in range(2):
            add_agent(http, wallet)
        mock.world.store.set_meta("a long note", "x" * MAX_BODY)
        saved = mock.snapshot()
    assert len(saved) > MAX_BODY
    with MockServer(clock=MockClock(START)) as server, client(server) as http:
        assert ok(http.post("/_mock/restore", content=saved))["agents"] == 2
    with MockService(clock=MockClock(START)) as other, in_process(other) as http:
        assert ok(http.post("/_mock/restore", content=saved))["agents"] == 2


# Scenarios


@pytest.mark.parametrize("how", [lambda mock, name: mock.reset(scenario=name), "control"], ids=["python", "control"])
def test_a_scenario_is_chosen_and_kept(tmp_path: Path, how: Callable[[MockService, str], None] | str) -> None:
    path = tmp_path / "state"
    with MockService(db=path, scenario="trending") as mock:
        assert mock.status()["scenario"] == "trending"
        if isinstance(how, str):
            mock.control("POST", "reset", {"scenario": "whipsaw"})
        else:
            how(mock, "whipsaw")
        assert mock.status()["scenario"] == "whipsaw"
        mock.reset(seed=8)
        assert mock.status()["scenario"] == "whipsaw"
        with pytest.raises(MockServerError, match=r"'sunny' is not a scenario: .*crash"):
            mock.reset(scenario="sunny")
        with pytest.raises(MockServerError, match="'sunny' is not a scenario"):
            mock.control("POST", "reset", {"scenario": "sunny"})
        assert mock.status()["scenario"] == "whipsaw"
    with MockService(db=path) as again:
        assert again.status()["scenario"] == "whipsaw"
    with pytest.raises(MockServerError, match="made with scenario whipsaw, not quiet"):
        MockService(db=path, scenario="quiet")
    with pytest.raises(MockServerError, match="'sunny' is not a scenario"):
        MockServer(scenario="sunny")


def test_the_mark_of_a_test_chooses_one() -> None:
    with pytest_plugin._make({"scenario": "crash"}) as mock:
        assert mock.status()["scenario"] == "crash"
    with pytest.raises(pytest.fail.Exception, match="'sunny' is not a scenario"):
        pytest_plugin._make({"scenario": "sunny"})
    with pytest.raises(pytest.fail.Exception, match="scenario: must be text"):
        pytest_plugin._make({"scenario": 7})
