"""What `signals.stream` accepts, refuses, and makes of it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tradesdk import InvalidArgumentError
from tradesdk._http.settings import ApiKey
from tradesdk._stream.checkpoint import hash_of_key
from tradesdk._stream.options import StreamOptions

from .._answers import BASE, KEY
from .._clock import START
from .._rows import each_of
from ._replays import listed

USUAL: dict[str, Any] = {
    "chain": 8453,
    "since": None,
    "min_confidence": None,
    "direction": None,
    "token": None,
    "checkpoint": False,
    "manual_ack": False,
    "heartbeats": False,
    "unknown_events": False,
    "reports": False,
    "idle_timeout": 90.0,
    "settle": 3.0,
    "recovery_timeout": 600.0,
    "max_reconnects": None,
}


def options(**changes: Any) -> StreamOptions:
    asked = StreamOptions(**USUAL | changes)
    asked.checkpoint_file(BASE, ApiKey(KEY))
    return asked


REFUSED: dict[str, list[Any]] = {
    "chain": [1, True, "8453"],
    "since": [datetime(2025, 1, 1), "yesterday", math.nan, -5],
    "min_confidence": [1.1, -0.1, math.nan, "high"],
    "direction": ["buy", "HOLD", ""],
    "token": ["", " \t", 5],
    "checkpoint": ["", 5, b"x", "a\0b"],
    "manual_ack": [True, "no", 0, None],
    "heartbeats": ["no", 1, None],
    "unknown_events": ["no", 1, None],
    "reports": ["no", 1, None],
    "idle_timeout": [0, -1, math.inf, math.nan, None, True],
    "settle": [-0.1, "3", math.inf],
    "recovery_timeout": [-1, math.nan],
    "max_reconnects": [-1, 1.5, True],
}


@each_of(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_what_cannot_be_meant_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        options(**{name: value})


@each_of(
    ("name", "value"),
    [("idle_timeout", 5), ("idle_timeout", 0.01), ("settle", 0), ("recovery_timeout", 0), ("max_reconnects", 0)],
)
def test_the_least_that_can_be_asked_for(name: str, value: Any) -> None:
    assert getattr(options(**{name: value}), name) == value


@each_of("since", [START, START + 0.7, datetime.fromtimestamp(START, UTC)])
def test_since_is_a_whole_second(since: Any) -> None:
    assert options(since=since).begin == START


@each_of(
    ("changes", "yes", "no"),
    [
        ({"min_confidence": 0.9}, {"confidence": 0.9}, {"confidence": 0.89}),
        ({"min_confidence": 0}, {"confidence": 0.0}, None),
        ({"direction": "SELL"}, {"direction": "SELL"}, {"direction": "BUY"}),
        ({"token": "brett"}, {"token_symbol": "BRETT"}, {"token_symbol": "BRETTS"}),
        ({"token": "0X" + "CD" * 20}, {}, {"token_address": "0x" + "ce" * 20}),
        ({"token": " BRETT\n"}, {"token_symbol": "BRETT"}, None),
        ({"token": "ünï"}, {"token_symbol": "ÜNÏ"}, {"token_symbol": "UNI"}),
    ],
)
def test_filters(changes: dict[str, Any], yes: dict[str, Any], no: dict[str, Any] | None) -> None:
    wanted = options(**changes).predicate
    assert wanted is not None
    assert wanted(listed("s", 1, **yes))
    assert no is None or not wanted(listed("s", 1, **no))


def test_a_checkpoint_of_ones_own(tmp_path: Path) -> None:
    file = options(checkpoint=tmp_path / "place.json", manual_ack=True).checkpoint_file(BASE, ApiKey(KEY))
    assert file is not None
    assert file.path == str(tmp_path / "place.json")
    assert list(tmp_path.iterdir()) == []


def test_the_usual_place_is_one_for_each_service_key_and_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_HOME", str(tmp_path))
    places = set()
    for base, key, chain in (
        (BASE, KEY, 8453),
        (BASE, KEY, 56),
        (BASE, KEY + "x", 8453),
        ("https://other.example", KEY, 8453),
    ):
        file = options(checkpoint=True, chain=chain).checkpoint_file(base, ApiKey(key))
        assert file is not None
        assert KEY not in file.path
        assert file.path.startswith(str(tmp_path / "checkpoints"))
        places.add(file.path)
    assert len(places) == 4


def test_without_a_key() -> None:
    file = options(checkpoint="x").checkpoint_file(BASE, None)
    assert file is not None
    assert KEY not in repr(file)
    assert hash_of_key(KEY) not in repr(file)
