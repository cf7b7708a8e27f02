"""The gap options themselves: their names, values and copies. What each of them does: test_gaps*."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tradesdk_mock import GapInfo, GapOptions, MockClock, MockServer

from ._support import START, client, error


def test_every_option_is_described_and_has_a_test() -> None:
    described = GapOptions.describe()
    shown = "".join(file.read_text() for file in Path(__file__).parent.glob("test_gaps*.py"))
    assert {info.name for info in described} == set(GapOptions().as_dict())
    for info in described:
        assert isinstance(info, GapInfo)
        assert f"def test_{info.name}(" in shown, f"no test shows {info.name}"
        assert info.others, info.name
        assert info.text
        assert "\n" not in info.text
        assert str(GapOptions().as_dict()[info.name]) == info.default
        for value in (info.default, *info.others):
            assert str(GapOptions().changed(**{info.name: value}).as_dict()[info.name]) == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"write_status": "204"}, "write_status"),
        ({"clock_skew": "soon"}, "clock_skew"),
        ({"clock_skew": 1.5}, "clock_skew"),
        ({"clock_skew": True}, "clock_skew"),
        ({"clock_skew": 10**6}, "clock_skew"),
        ({"cursor_ttl": -1}, "cursor_ttl"),
        ({"quotas": "pro=1"}, "quotas"),
        ({"quotas": "gold=1/1"}, "quotas"),
        ({"wallet_message": "hello"}, "wallet_message"),
        ({"wallet_message": "{address}" + "a" * 3_000}, "wallet_message"),
        ({"wallet_message": 5}, "wallet_message"),
        ({"order": None}, "order"),
        ({"mood": "good"}, "no gap option 'mood'"),
    ],
)
def test_values_that_an_option_does_not_have(server: MockServer, options: dict[str, Any], message: str) -> None:
    before = server.gaps
    with pytest.raises(ValueError, match=message):
        server.set_gaps(**{"range_status": "400", **options})
    assert server.gaps == before


def test_an_unknown_option_is_answered_with_those_that_exist(server: MockServer) -> None:
    known = ", ".join(GapOptions().as_dict())
    message = f"there is no gap option 'mood'; there are: {known}"
    options: dict[str, Any] = {"order": "oldest", "mood": "good"}
    with pytest.raises(TypeError) as made:
        GapOptions(**options)
    with pytest.raises(ValueError, match="mood") as changed:
        server.set_gaps(**options)
    assert str(made.value) == str(changed.value) == message
    assert server.gaps.order == "newest"


def test_options_can_be_copied() -> None:
    options = GapOptions(order="oldest", clock_skew=5)
    assert copy.deepcopy(options) == pickle.loads(pickle.dumps(options)) == replace(options) == options  # noqa: S301 - our own bytes


def test_numbers_stand_for_their_text() -> None:
    options = GapOptions().changed(agent_quota_status=422, clock_skew="-600")
    assert (options.agent_quota_status, options.clock_skew) == ("422", -600)
    with pytest.raises(AttributeError):
        options.order = "oldest"  # type: ignore[misc]  # that this can't be done is what is tested


def test_options_at_the_start() -> None:
    with (
        MockServer(gaps=GapOptions(range_status="400"), clock=MockClock(START)) as server,
        client(server) as http,
    ):
        error(http.get("/v1/trades?limit=0"), 400, "invalid_request")
        assert server.gaps.range_status == "400"
