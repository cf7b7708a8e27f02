"""Lines and events that are too long: where it stops, what it still says, and what it keeps in memory meanwhile."""

import pickle
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from tradesdk._stream.sse import HEAD, MAX_EVENT, MAX_LINE, ServerSentEvent, SSEDecoder, SSELimitError

LINE = 40
EVENT = 60


def small() -> SSEDecoder:
    return SSEDecoder(max_line=LINE, max_event=EVENT)


def pieces(stream: bytes, size: int) -> Iterator[bytes]:
    return (stream[start : start + size] for start in range(0, len(stream), size))


def fed(decoder: SSEDecoder, stream: bytes, size: int) -> list[bytes]:
    return [event.data for piece in pieces(stream, size) for event in decoder.feed(piece)]


def error_of(decoder: SSEDecoder) -> tuple[str, int, bytes]:
    assert decoder.error is not None
    return decoder.error.what, decoder.error.limit, decoder.error.head


every_cut = pytest.mark.parametrize("size", [1, 2, 3, 7, 39, 40, 41, 42, 1000])


@every_cut
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("start", [b"data: ", b"data:", b":", b"id: ", b"event: ", b"unknown: ", b"retry: ", b""])
def test_a_line_of_the_limit_passes_and_one_byte_more_does_not(start: bytes, end: bytes, size: int) -> None:
    before, after = b"data: before" + 2 * end, b"data: after" + 2 * end
    longest = start + b"x" * (LINE - len(start))
    value = [longest[len(start) :]] if start.startswith(b"data") else []
    decoder = small()
    assert fed(decoder, before + longest + 2 * end + after, size) == [b"before", *value, b"after"]
    assert decoder.error is None

    decoder = small()
    assert fed(decoder, before + longest + b"x" + 2 * end + after, size) == [b"before"]
    assert error_of(decoder) == ("line", LINE, longest)


@every_cut
def test_a_line_without_end_is_refused_as_soon_as_it_is_too_long(size: int) -> None:
    decoder = small()
    for number, piece in enumerate(pieces(b"data: x\n\n" + b"y" * 400, size)):
        decoder.feed(piece)
        assert (decoder.error is not None) == ((number + 1) * size > 9 + LINE)
    assert error_of(decoder) == ("line", LINE, b"y" * LINE)


@every_cut
@pytest.mark.parametrize("between", [b"", b": said between\n", b"id: 3\n", b"\xff\n"])
def test_an_event_of_the_limit_passes_and_one_byte_more_does_not(between: bytes, size: int) -> None:
    half = b"data: " + b"a" * 30 + b"\n" + between
    decoder = small()
    assert fed(decoder, half + b"data: " + b"b" * 29 + b"\n\ndata: c\n\n", size) == [
        b"a" * 30 + b"\n" + b"b" * 29,
        b"c",
    ]
    assert decoder.error is None

    decoder = small()
    assert fed(decoder, b"data: c\n\n" + half + b"data: " + b"b" * 30 + b"\n\ndata: c\n\n", size) == [b"c"]
    assert error_of(decoder) == ("event", EVENT, b"a" * 30 + b"\n" + b"b" * 29)


@every_cut
def test_line_ends_count_in_an_event(size: int) -> None:
    decoder = small()
    assert fed(decoder, b"data\n" * 61 + b"\n", size) == [b"\n" * 60]
    assert fed(decoder, b"data\n" * 62 + b"\n", size) == []
    assert error_of(decoder) == ("event", EVENT, b"\n" * 60)


@every_cut
def test_an_event_of_one_line_keeps_to_the_limit_of_events(size: int) -> None:
    for stream in (b"data: 1234\n\ndata: 12345\n\n", b"data: 12345\n\ndata: 1234\n\n", b"data: 12345\n\n"):
        decoder = SSEDecoder(max_line=100, max_event=4)
        assert fed(decoder, stream, size) == [b"1234"][: stream.startswith(b"data: 1234\n")]
        assert error_of(decoder) == ("event", 4, b"1234")


def test_what_counts_is_the_data_of_one_event() -> None:
    decoder = small()
    for _ in range(100):
        assert decoder.feed(b": alive\nunknown: field\n") == []
        assert decoder.feed(b"event: e\nid: 1\n") == []
    assert decoder.feed(b"data: x\n\n") == [ServerSentEvent(b"x", "e", "1")]
    assert decoder.comments == 100


def test_a_byte_order_mark_is_no_part_of_the_line() -> None:
    decoder = small()
    assert fed(decoder, b"\xef\xbb\xbfdata: " + b"x" * (LINE - 6) + b"\n\n", 1) == [b"x" * (LINE - 6)]


def test_after_an_error_it_says_nothing_more_until_it_is_closed() -> None:
    decoder = small()
    decoder.feed(b"id: 5\nretry: 7\ndata: x\n\nid: 6\n" + b"y" * (LINE + 1))
    error = decoder.error
    for chunk in (b"\n", b"data: z\n\n", b"", b"retry: 8\n\n:\n\n", b"y" * 1000):
        assert decoder.feed(chunk) == []
    assert decoder.error is error
    assert (decoder.last_event_id, decoder.retry, decoder.comments) == ("5", 7, 0)
    decoder.close()
    assert decoder.error is error
    with pytest.raises(RuntimeError, match="ended"):
        decoder.feed(b"data: z\n\n")


def test_the_error_says_what_is_wrong_and_can_be_pickled() -> None:
    for what, says in (("line", "a line of the stream"), ("event", "an event of the stream")):
        error = SSELimitError(what, MAX_LINE, b"\x1b[2Jx")
        assert str(error) == f"{says} is longer than 1,048,576 bytes"
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  # what was written a moment ago
        assert (again.what, again.limit, again.head, str(again)) == (what, MAX_LINE, b"\x1b[2Jx", str(error))
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("size", [1000, 65_536, 10 * 1024 * 1024])
def test_the_usual_limits(size: int) -> None:
    value = b"x" * (MAX_LINE - 6)
    decoder = SSEDecoder()
    assert fed(decoder, b"data: " + value + b"\n\n", size) == [value]
    four = (b"data: " + value + b"\n") * 4 + b"data: " + b"y" * 20  # with the four ends of lines the limit exactly
    assert [len(data) for data in fed(decoder, four + b"\n\n", size)] == [MAX_EVENT]
    assert fed(decoder, four + b"y\n\n", size) == []
    assert error_of(decoder) == ("event", MAX_EVENT, b"x" * HEAD)

    decoder = SSEDecoder()
    assert fed(decoder, b"data: x\n\ndata: " + value + b"x\n\n", size) == [b"x"]
    assert error_of(decoder) == ("line", MAX_LINE, b"data: " + b"x" * (HEAD - 6))


def test_a_long_line_byte_by_byte_takes_time_in_proportion() -> None:
    def per_byte(length: int) -> float:
        taken = []
        for _ in range(3):
            decoder = SSEDecoder()
            decoder.feed(b"data: ")
            began = time.process_time()
            for _ in range(length):
                decoder.feed(b"x")
            taken.append((time.process_time() - began) / length)
            (event,) = decoder.feed(b"\n\n")
            assert len(event.data) == length
        return min(taken)

    assert per_byte(MAX_LINE // 4) < 4 * per_byte(MAX_LINE // 64)  # were it copied each time: some 15 times


def peak(stream: Iterator[bytes]) -> tuple[int, int]:
    """Bytes that a decoder and the events of one feed take at most, and what it holds at the end."""
    tracemalloc.start()
    try:
        decoder = SSEDecoder()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for piece in stream:
            decoder.feed(piece)
        now, most = tracemalloc.get_traced_memory()
        return most - before, now - before
    finally:
        tracemalloc.stop()


def test_nothing_is_kept_of_what_is_past() -> None:
    burst = b'data: {"type":"signal"}\n\n: alive\n\nid: 1\nevent: e\ndata: 1\ndata: 2\n\n' * 20
    most, left = peak(iter([burst] * 200))
    assert most < 100_000
    assert left < 2_000


@pytest.mark.parametrize("size", [100, 4096])
def test_a_large_event_in_small_pieces_is_held_once_and_joined_once(size: int) -> None:
    event = (b"data: " + b"x" * 1000 + b"\n") * 4150 + b"\n"
    assert MAX_EVENT - 100_000 < len(event) - 7 * 4150 < MAX_EVENT
    most, left = peak(pieces(event, size))
    assert most < 2.5 * MAX_EVENT
    assert left < 2_000


def test_the_smallest_lines_do_not_take_more_room_than_their_bytes() -> None:
    most, left = peak(iter([b"data:12\n" * 100] * 1000))
    assert most < 2.5 * 300_000
    assert left > 299_000  # the event goes on


@pytest.mark.parametrize("stream", [b"x" * 65_536, b"data: " + b"x" * 65_529 + b"\n"], ids=["line", "event"])
def test_after_an_error_nothing_is_kept(stream: bytes) -> None:
    most, left = peak(iter([stream] * 200))
    assert most < 2.5 * MAX_EVENT
    assert left < HEAD + 5_000
