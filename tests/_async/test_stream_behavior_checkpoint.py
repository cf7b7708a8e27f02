"""Checkpoints that cannot be used or written, seen from the stream: told by type, and nothing is lost by it."""

from __future__ import annotations

import errno
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import CheckpointError, Gap, InvalidArgumentError, PositionReset
from tradesdk._stream import checkpoint
from tradesdk._system import private_files as wholefile

from .._answers import BASE, KEY
from .._clock import START
from .._rows import each_of
from .._spellings import PAIRS
from .._streamscript import Life, StreamScript, fields, live
from .._streamservice_plan import BACKEND
from ._following import Followed, followed, opened

pytestmark = pytest.mark.twin


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


@pytest.fixture(autouse=True)
def seconds_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each acknowledgment is written at once."""
    monkeypatch.setattr(checkpoint, "WAIT", 0.0)


LISTED = [fields(f"s{number}", number - 60) for number in range(1, 6)]
SINCE = START - 100


async def taken(path: Path, most: int, *, last: str = "end", listed: Any = LISTED, **options: Any) -> list[str]:
    """A run that ends with the block after so many signals, as a program does that is asked to stop."""
    ids: list[str] = []
    script = StreamScript([60.0, live(last, 60)], listed=listed)
    async with opened(script, checkpoint=path, reports=False, **options) as stream, stream:
        async for item in stream:
            ids.append(getattr(item, "id", ""))
            if len(ids) == most:
                break
    return ids


async def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "place.json"
    assert await taken(path, 2, since=SINCE) == ["s1", "s2"]
    assert await taken(path, 2, since=SINCE) == ["s3", "s4"]
    assert await taken(path, 2) == ["s5", "end"]
    saved = path.read_text()
    assert KEY not in saved
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_since_that_the_checkpoint_overrides_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[dict[str, Any]]:
        return [vars(record) for record in caplog.records if record.__dict__.get("event") == "stream_since_ignored"]

    path = tmp_path / "place.json"
    caplog.set_level("INFO", "tradesdk")
    await taken(path, 2, since=SINCE)  # there is no checkpoint yet
    await taken(path, 1)  # and no since
    assert said() == []
    assert await taken(path, 2, since=SINCE) == ["s4", "s5"]
    (record,) = said()
    assert (record["levelname"], record["chain"]) == ("INFO", 8453)
    assert record["position"].timestamp() >= SINCE


async def test_what_the_consumer_broke_over_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "place.json"

    def break_at(item: object) -> None:
        if getattr(item, "id", "") == "s2":
            raise ZeroDivisionError

    found = await followed(StreamScript([9.0], listed=LISTED), after=break_at, checkpoint=path, since=SINCE)
    assert type(found.error) is ZeroDivisionError
    assert await taken(path, 1) == ["s2"]


async def test_one_that_is_older_than_what_an_earlier_run_gave_is_late(tmp_path: Path) -> None:
    """The service published `x` first, and `y`, dated a second before it, while no run was reading."""
    path = tmp_path / "place.json"
    first = await followed(StreamScript([10.0, live("x", 10)]), checkpoint=path)
    assert first.ids == ["x"]
    script = StreamScript([9.0, live("end", 39)], listed=[fields("y", 9), fields("x", 10), fields("z", 10)])
    script.clock.advance(30)
    second = await followed(script, checkpoint=path)
    assert [(one.id, one.replayed, one.late) for one in second.signals] == [("y", True, True), ("z", True, False)]
    assert second.stats.late == 1


async def test_by_hand_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "place.json"
    script = StreamScript([60.0, live("end", 60)], listed=LISTED)
    async with opened(script, checkpoint=path, since=SINCE, manual_ack=True, reports=False) as stream, stream:
        signals: Any = [await anext(stream) for _ in range(5)]
        await stream.ack(signals[3])
        await stream.ack(signals[0])
        await stream.ack(signals[0])
    assert await taken(path, 4) == ["s2", "s3", "s5", "end"]


@pytest.mark.parametrize("named", [False, True], ids=["a damaged digit", "a clock that was ahead"])
@pytest.mark.parametrize("ahead", [60, 2_000_000_000])
async def test_a_position_ahead_of_the_services_time_loses_nothing_and_is_reported(
    ahead: int, named: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "place.json"
    assert await taken(path, 2, since=SINCE) == ["s1", "s2"]
    state = json.loads(path.read_text())
    state["position"] = START + ahead
    state["handled"] = [["x", START + ahead]] if named else []
    path.write_text(json.dumps(state))
    script = StreamScript([5.0, live("a", 5), live("end", 6)], listed=LISTED)
    found = await followed(script, checkpoint=path)
    assert found.ids == ["s1", "s2", "s3", "s4", "s5", "a"]
    (reset,) = found.of(PositionReset)
    assert (reset.position.timestamp(), reset.start.timestamp()) == (START + ahead, SINCE)
    assert f"the position {reset.position} was reset to {reset.start}" in caplog.text
    assert (found.stats.gaps, found.stats.late) == (0, 0)


@pytest.mark.parametrize(("keeps", "gaps"), [(3_600, []), (200, [(0, 310)])], ids=["enough", "too little"])
async def test_what_the_history_let_go_between_two_runs_is_a_gap(
    keeps: int, gaps: list[tuple[int, int]], tmp_path: Path
) -> None:
    path = tmp_path / "place.json"

    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        return script.honest(query | {"from": str(max(int(query.get("from", "0")), int(START + script.now - keeps)))})

    async def run(*lives: Life) -> Followed:
        script.lives += lives
        return await followed(script, checkpoint=path)

    listed = [fields("a", 5), *(fields(f"m{at}", at) for at in range(10, 500, 20))]
    script = StreamScript(listed=listed, history=history)
    assert (await run([5.0, live("a", 5), live("end", 5)])).ids == ["a"]
    script.clock.advance(495)
    found = await run([9.0, live("end", 9_999)])
    assert [(gap.start.timestamp() - START, gap.end.timestamp() - START) for gap in found.of(Gap)] == gaps
    assert len(found.ids) == (10 if gaps else 25)


DAMAGED = {
    "cut": b'{"version": 1, "serv',
    "another account": json.dumps(
        {"version": 1, "service": BASE, "key": "0" * 16, "chain": 8453, "begin": 0, "position": 0, "handled": []}
    ).encode(),
}
"""Of each code one; `tests/unit/test_checkpoint_faults.py` has them all."""


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
async def test_one_that_cannot_be_used_is_refused_before_anything_is_asked(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "place.json"
    path.write_bytes(content)
    script = StreamScript()
    found = await followed(script, checkpoint=path)
    assert type(found.error) is CheckpointError
    assert found.error.path == str(path)
    assert found.error.hint
    assert KEY not in str(found.error)
    assert (script.requests, path.read_bytes()) == ([], content)


async def test_two_streams_cannot_have_the_same(tmp_path: Path) -> None:
    path = tmp_path / "place.json"
    script = StreamScript([9.0, live("end", 9)])
    async with opened(script, checkpoint=path) as stream, stream:
        found = await followed(StreamScript(), checkpoint=path)
        assert type(found.error) is CheckpointError
        assert "is in use by" in str(found.error)
    assert await taken(path, 1, listed=()) == ["end"]


async def test_a_disk_that_is_full_from_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(wholefile, "replace", full)
    found = await followed(StreamScript([live("end", 0)]), checkpoint=tmp_path / "place.json")
    assert type(found.error) is CheckpointError
    assert "No space left on device (ENOSPC)" in found.error.message


class Disk:
    """Has no room for the next `full` attempts to write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = 0
        self._replace = wholefile.replace
        monkeypatch.setattr(wholefile, "replace", self.replace)

    def replace(self, path: str, data: bytes) -> None:
        if self.full:
            self.full -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self._replace(path, data)


async def test_a_disk_that_is_full_for_a_while_costs_no_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "place.json"
    disk = Disk(monkeypatch)
    ids: list[str] = []
    errors: list[str] = []
    script = StreamScript([60.0, live("end", 60)], listed=LISTED)
    async with opened(script, checkpoint=path, since=SINCE, reports=False) as stream, stream:
        while "end" not in ids:
            try:
                ids.append(getattr(await anext(stream), "id", ""))
            except CheckpointError as error:
                errors.append(str(error))
            else:
                disk.full = 2 if ids[-1] in ("s2", "s4") else 0
    assert ids == ["s1", "s2", "s3", "s4", "s5", "end"]
    assert len(errors) == 4
    assert all("No space left on device (ENOSPC)" in error for error in errors)
    assert script.connects == [0.0]
    assert await taken(path, 1, last="s6") == ["s6"]


async def test_an_acknowledgement_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "place.json"
    disk = Disk(monkeypatch)
    script = StreamScript([60.0, live("end", 60)], listed=LISTED)
    async with opened(script, checkpoint=path, since=SINCE, manual_ack=True, reports=False) as stream, stream:
        signals: Any = [await anext(stream) for _ in range(3)]
        for _ in range(2):  # the second time as well: it is still not written
            disk.full = 1
            with pytest.raises(CheckpointError, match="ENOSPC"):
                await stream.ack(signals[0])
        assert getattr(await anext(stream), "id", "") == "s4"
        await stream.ack(signals[1])  # with it the first one is written as well
        assert await elsewhere(path, 4) == ["s3", "s4", "s5", "end"]
        disk.full = 1
        with pytest.raises(CheckpointError, match="ENOSPC"):
            await stream.ack(signals[2])
        await stream.ack(signals[2])
        assert await elsewhere(path, 3) == ["s4", "s5", "end"]
    assert await taken(path, 1) == ["s4"]


@pytest.mark.parametrize("broken", [False, True])
async def test_a_place_that_cannot_be_written_at_the_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """Unless the block ends with an error of its own, which says more."""
    disk = Disk(monkeypatch)
    script = StreamScript([60.0], listed=LISTED)
    opening = opened(script, checkpoint=tmp_path / "place.json", since=SINCE, reports=False)

    async def read() -> None:
        async with opening as stream, stream:
            await anext(stream)
            await anext(stream)
            disk.full = 9
            if broken:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError if broken else CheckpointError):
        await read()


async def elsewhere(path: Path, most: int) -> list[str]:
    """What a run would get if this one were killed now."""
    other = path.with_name("copy.json")
    shutil.copy(path, other)
    return await taken(other, most)


async def test_killed_at_any_signal_it_goes_on_there(tmp_path: Path) -> None:
    path = tmp_path / "place.json"
    script = StreamScript([60.0, live("end", 60)], listed=LISTED)
    left = ["s1", "s2", "s3", "s4", "s5", "end"]
    async with opened(script, checkpoint=path, since=SINCE, reports=False) as stream, stream:
        for expected in left:
            assert getattr(await anext(stream), "id", "") == expected
            assert await elsewhere(path, 1) == [expected]
            assert json.loads(path.read_text())["begin"] == SINCE
    assert handled(path) == left


def handled(path: Path) -> list[str]:
    return [signal_id for signal_id, _ in json.loads(path.read_text())["handled"]]


@each_of("ends", ["at the end", "by an error", "closed by another"])
@each_of("manual", [False, True])
async def test_in_a_burst_acknowledgments_are_written_once_and_when_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, manual: bool
) -> None:
    monkeypatch.setattr(checkpoint, "WAIT", 3_600.0)
    path = tmp_path / f"{ends} {manual}.json"
    script = StreamScript([60.0, live("end", 60)], listed=LISTED)
    stream: Any
    async with opened(script, checkpoint=path, since=SINCE, manual_ack=manual, reports=False) as stream:
        with suppress(ZeroDivisionError):
            async with stream:
                for _ in range(4):
                    signal = await anext(stream)
                    if manual:
                        await stream.ack(signal)
                    assert handled(path) == []
                if ends == "by an error":
                    raise ZeroDivisionError
                if ends == "closed by another":
                    await stream.aclose()
    # The one that an error came over was not dealt with.
    assert handled(path) == ["s1", "s2", "s3", "s4"][: 3 if ends == "by an error" and not manual else 4]


async def test_a_first_signal_that_is_older_than_the_stream_is_not_lost(tmp_path: Path) -> None:
    """It shows that the stream lags behind, so what it brings is wanted; also after a crash over the first one."""
    path = tmp_path / "place.json"

    def crash(item: object) -> None:
        if getattr(item, "id", "") == "old":
            raise ZeroDivisionError

    listed = [fields("old", -50), fields("next", -49)]
    script = StreamScript([1.0, live("old", -50), live("next", -49)], listed=[])
    found = await followed(script, after=crash, checkpoint=path)
    assert type(found.error) is ZeroDivisionError
    assert found.ids == ["old"]
    assert await taken(path, 3, listed=listed) == ["old", "next", "end"]


async def test_somebody_else_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "place.json"
    script = StreamScript([60.0, live("end", 60)], listed=LISTED)
    async with opened(script, checkpoint=path, since=SINCE, reports=False) as stream, stream:
        assert getattr(await anext(stream), "id", "") == "s1"
        path.write_text("a note")
        for _ in range(2):
            with pytest.raises(CheckpointError, match="another program has changed or replaced it"):
                await anext(stream)
        assert path.read_text() == "a note"
        path.unlink()
        assert getattr(await anext(stream), "id", "") == "s2"
    assert await taken(path, 1) == ["s3"]


async def test_without_a_checkpoint_there_is_nothing_to_acknowledge() -> None:
    async with opened(StreamScript([1.0, live("a", 1)]), reports=False) as stream, stream:
        signal: Any = await anext(stream)
        with pytest.raises(InvalidArgumentError, match="ack needs a checkpoint"):
            await stream.ack(signal)


@each_of(("one", "other", "same"), PAIRS, ids=ascii)
async def test_a_service_has_several_spellings(one: str, other: str, same: bool, tmp_path: Path) -> None:
    path = tmp_path / "place.json"
    path.unlink(missing_ok=True)
    codes = []
    for number, url in enumerate((one, other)):
        script = StreamScript([live(last := f"s{number}", 1)], listed=[])
        try:
            async with opened(script, base_url=url, checkpoint=path) as stream, stream:
                async for item in stream:
                    if getattr(item, "id", "") == last:
                        break
        except CheckpointError as error:
            codes.append(error.code)
    assert codes == ([] if same else ["checkpoint_mismatch"])
