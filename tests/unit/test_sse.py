"""Event streams, typed from the HTML standard: their data, however the bytes are cut, and what is too long."""

import time
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk._stream.sse import HEAD, LONGEST_RETRY, MAX_EVENT, MAX_LINE, SSEDecoder, TooLong

from .._rows import each_of

BOM = b"\xef\xbb\xbf"


class Case(NamedTuple):
    stream: bytes
    events: list[tuple[str, str]]  # data, and the last event id then
    last_event_id: str = ""
    retry: int | None = None


def messages(*data: str) -> list[tuple[str, str]]:
    return [(one, "") for one in data]


CASES = {
    # the standard's own examples
    "example: three messages": Case(
        b"data: This is the first message.\n\n"
        b"data: This is the second message, it\ndata: has two lines.\n\n"
        b"data: This is the third message.\n\n",
        messages(
            "This is the first message.",
            "This is the second message, it\nhas two lines.",
            "This is the third message.",
        ),
    ),
    "example: types": Case(
        b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n",
        [("73857293", ""), ("2153", ""), ("113411", "")],
    ),
    "example: stocks": Case(b"data: YHOO\ndata: +2\ndata: 10\n\n", messages("YHOO\n+2\n10")),
    "example: four blocks": Case(
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        [("first event", "1"), ("second event", ""), (" third event", "")],
    ),
    "example: empty data": Case(b"data\n\ndata\ndata\n\ndata:", messages("", "\n")),
    "example: with and without a space": Case(b"data:test\n\ndata: test\n\n", messages("test", "test")),
    # nothing at all
    "nothing": Case(b"", []),
    "empty lines": Case(b"\n\n\r\r\r\n\r\n\n\r", []),
    "only a comment": Case(b":\n\n: x\n\n", []),
    # byte order marks
    "bom": Case(BOM + b"data: x\n\n", messages("x")),
    "bom alone": Case(BOM, []),
    "bom twice": Case(BOM + BOM + b"data: x\n\ndata: y\n\n", messages("y")),
    "bom before a comment": Case(BOM + b":\ndata: x\n\n", messages("x")),
    "bom before an empty line": Case(BOM + b"\ndata: x\n\n", messages("x")),
    "bom later": Case(b"data: x\n\n" + BOM + b"data: y\n\n", messages("x")),
    "bom in data": Case(b"data:" + BOM + b"x\n\n", messages("\ufeffx")),
    "half a bom": Case(b"\xef\xbbdata: x\n\ndata: y\n\n", messages("y")),
    "a third of a bom": Case(b"\xef\n\xbb\xbfdata: x\n\ndata: y\n\n", messages("y")),
    "half a bom and the end": Case(b"\xef\xbb", []),
    "bom of utf-16": Case(b"\xff\xfedata: x\n\ndata: y\n\n", messages("y")),
    # ends of lines
    "lf": Case(b"data: x\ndata: y\n\n", messages("x\ny")),
    "cr": Case(b"data: x\rdata: y\r\r", messages("x\ny")),
    "crlf": Case(b"data: x\r\ndata: y\r\n\r\n", messages("x\ny")),
    "cr then lf": Case(b"data: x\r\n\r", messages("x")),
    "lf then cr": Case(b"data: x\n\r", messages("x")),
    "lf then crlf": Case(b"data: x\n\r\ndata: y\r\r\n", messages("x", "y")),
    "crlf is one end": Case(b"data: x\r\ndata: y\r\n\r\ndata: z\r\n", messages("x\ny")),
    "ends mixed": Case(b"data: a\rdata: b\r\ndata: c\n\r\ndata: d\r\rdata: e\n\n", messages("a\nb\nc", "d", "e")),
    "many empty lines": Case(b"data: x\n\n\n\n\ndata: y\n\n\ndata: z\n\n", messages("x", "y", "z")),
    "what ends no line": Case(
        "data: a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\x1dh\x1ei\n\n".encode(),
        messages("a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\x1dh\x1ei"),
    ),
    "nel as a byte": Case(b"data: a\x85data: b\n\n", messages("a\ufffddata: b")),
    # an end too early
    "no empty line": Case(b"data: x\n", []),
    "no end of line": Case(b"data: x", []),
    "cut off": Case(b"data: x\n\nid: 7\nevent: e\ndata: y\n", messages("x")),
    "retry without an end": Case(b"retry: 5", []),
    # comments
    "comment": Case(b":data: x\n\n: \n:\ndata: y\n\n", messages("y")),
    "comment inside": Case(b"data: x\n: and\ndata: y\n\n", messages("x\ny")),
    "comment with a colon": Case(b"::data: x\ndata: y\n\n", messages("y")),
    "nul in a comment": Case(b":\0\ndata: x\n\n", messages("x")),
    # fields
    "one space": Case(b"data:  x \n\ndata:\tx\n\ndata: \n\ndata:\n\n", messages(" x ", "\tx", "", "")),
    "no space before the colon": Case(b"data : x\ndata\t: x\n data: x\n\ndata: y\n\n", messages("y")),
    "colons in data": Case(b"data: a:b: c\n\ndata::\n\ndata::x\n\n", messages("a:b: c", ":", ":x")),
    "case matters": Case(b"Data: x\nDATA: x\nEvent: x\nID: x\ndata: y\n\n", messages("y")),
    "unknown fields": Case(b"foo: x\ndat: x\ndataa: x\ndata: y\nbar\n\n", messages("y")),
    "name alone": Case(b"data\n\nevent\ndata\ndata\n\n", messages("", "\n")),
    "empty data among others": Case(b"data: a\ndata\ndata:\ndata: b\n\n", messages("a\n\n\nb")),
    "empty data first": Case(b"data:\ndata: b\n\n", messages("\nb")),
    "nul in a name": Case(b"data\0: x\n\0data: x\ndata: y\n\n", messages("y")),
    "nul in data": Case(b"data: \0x\n\n", messages("\0x")),
    "order of fields": Case(b"data: a\nid: 1\nevent: e\ndata: b\n\n", [("a\nb", "1")], "1"),
    "types": Case(b"event: a\nevent: b\ndata: x\n\nevent: a\nevent\ndata: y\n\n", [("x", ""), ("y", "")]),
    "type without data is forgotten": Case(b"event: a\n\ndata: x\n\n", messages("x")),
    # ids
    "id stays": Case(b"id: 1\ndata: x\n\ndata: y\n\nid: 2\ndata: z\n\n", [("x", "1"), ("y", "1"), ("z", "2")], "2"),
    "id without data": Case(b"id: 1\n\ndata: x\n\n", [("x", "1")], "1"),
    "id without data at the end": Case(b"data: x\n\nid: 1\n\n", messages("x"), "1"),
    "id of an event cut off": Case(b"id: 1\ndata: x\n\nid: 2\ndata: y\n", [("x", "1")], "1"),
    "id taken back": Case(b"id: 1\ndata: x\n\nid\ndata: y\n\n", [("x", "1"), ("y", "")]),
    "id with nul": Case(b"id: 1\ndata: x\n\nid: 2\0\ndata: y\n\n", [("x", "1"), ("y", "1")], "1"),
    "id with nul does not undo one": Case(b"id: 1\nid: \0\ndata: x\n\n", [("x", "1")], "1"),
    "id as it is": Case("id:  ü:\u2028 \ndata: x\n\n".encode(), [("x", " ü:\u2028 ")], " ü:\u2028 "),
    "id after a message in the same bytes": Case(
        b"data: a\n\ndata: b\n\nid: 9\ndata: c\n\ndata: d\n\n",
        [("a", ""), ("b", ""), ("c", "9"), ("d", "9")],
        "9",
    ),
    # retry
    "retry": Case(b"retry: 1000\n\n", [], retry=1000),
    "retry at once": Case(b"retry:7\n", [], retry=7),
    "retry zero": Case(b"retry: 0\n", [], retry=0),
    "retry with zeros": Case(b"retry: 0" + b"0" * 40 + b"12\n", [], retry=12),
    "last retry counts": Case(b"retry: 1\nretry: 2\nretry: x\ndata: x\n\nretry\n", messages("x"), retry=2),
    **{
        f"retry {bad!r}": Case(b"retry:" + bad + b"\ndata: x\n\n", messages("x"))
        for bad in (
            *(b"", b" ", b" +5", b" -5", b"  5", b" 5 ", b" 5.0", b" 1e3", b" 0x5", b" 1_000", b" 5s", b" \0", b"\t5"),
            *(" \u0663".encode(), " \uff15".encode(), " \u00b2".encode(), b" \xff5"),
        )
    },
    # bytes that are not UTF-8
    "broken characters": Case(
        b"data: \xff\xfe\n\ndata: \xf0\x9f\x92\n\ndata: \xc3\ndata: \xa4\n\ndata: \xed\xa0\x80\n\n",
        messages("\ufffd\ufffd", "\ufffd", "\ufffd\n\ufffd", "\ufffd\ufffd\ufffd"),
    ),
    "broken type and id": Case(b"event: \xff\nid: \xe2\x82\ndata: x\n\n", [("x", "\ufffd")], "\ufffd"),
    "broken character before an end": Case(b"data: \xe2\x82\r\n\r\ndata\xc3: x\n\n", messages("\ufffd")),
    "characters of four bytes": Case("data: 🚀ä€\n\n".encode(), messages("🚀ä€")),
}


def outcome(chunks: Iterable[bytes]) -> tuple[list[str], str, int | None]:
    """Data, the last event id and the last retry."""
    decoder = SSEDecoder()
    seen = [data.decode("utf-8", "replace") for chunk in chunks for data in decoder.feed(chunk)]
    assert decoder.error is None
    return seen, decoder.last_event_id, decoder.retry


def byte_by_byte(stream: bytes) -> list[tuple[str, str]]:
    decoder = SSEDecoder()
    bytes_of_it = (bytes([byte]) for byte in stream)
    return [
        (data.decode("utf-8", "replace"), decoder.last_event_id) for one in bytes_of_it for data in decoder.feed(one)
    ]


def cut(stream: bytes, *places: int) -> Iterator[bytes]:
    for start, end in zip((0, *places), (*places, len(stream)), strict=True):
        yield stream[start:end]


def test_whole_and_cut_at_every_byte() -> None:
    for name, case in CASES.items():
        assert byte_by_byte(case.stream) == case.events, name
        expected = [data for data, _ in case.events], case.last_event_id, case.retry
        assert outcome([case.stream]) == expected, name
        for place in range(len(case.stream) + 1):
            assert outcome(cut(case.stream, place)) == expected, (name, place)


def test_data_stays_bytes() -> None:
    (data,) = SSEDecoder().feed(b"id: a\nevent: b\ndata: \xffx\r\ndata:\xc3\n\n")
    assert data == b"\xffx\n\xc3"
    assert isinstance(data, bytes)


def test_a_retry_beyond_reason_is_cut() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"retry: %d\n" % (LONGEST_RETRY - 1))
    assert decoder.retry == LONGEST_RETRY - 1
    for digits in (b"%d" % (LONGEST_RETRY + 1), b"1" + b"0" * 17, b"9" * 5000, b"0" * 5000 + b"9" * 900_000):
        decoder.feed(b"retry: 1\n")
        assert decoder.retry == 1
        decoder.feed(b"retry: " + digits + b"\n")
        assert decoder.retry == LONGEST_RETRY


def test_retry_counts_before_its_event_ends_and_an_id_does_not() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"retry: 20\nid: 4\ndata: x\n") == []
    assert (decoder.retry, decoder.last_event_id) == (20, "")
    assert decoder.feed(b"\n") == [b"x"]
    assert decoder.last_event_id == "4"


# Lines and events that are too long

LINE = 40
EVENT = 60


def small() -> SSEDecoder:
    return SSEDecoder(max_line=LINE, max_event=EVENT)


def pieces(stream: bytes, size: int) -> Iterator[bytes]:
    return (stream[start : start + size] for start in range(0, len(stream), size))


def fed(decoder: SSEDecoder, stream: bytes, size: int) -> list[bytes]:
    return [data for piece in pieces(stream, size) for data in decoder.feed(piece)]


def error_of(decoder: SSEDecoder) -> tuple[str, int, bytes]:
    assert decoder.error is not None
    return decoder.error.what, decoder.error.limit, decoder.error.head


every_cut = pytest.mark.parametrize("size", [1, 2, 3, 7, 39, 40, 41, 42, 1000])


@every_cut
@each_of("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_of_the_limit_passes_and_one_byte_more_does_not(end: bytes, size: int) -> None:
    for start in (b"data: ", b"data:", b":", b"id: ", b"event: ", b"unknown: ", b"retry: ", b""):
        a_line_of_the_limit_passes_and_one_byte_more_does_not(start, end, size)


def a_line_of_the_limit_passes_and_one_byte_more_does_not(start: bytes, end: bytes, size: int) -> None:
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


def test_what_counts_is_the_data_of_one_event() -> None:
    decoder = small()
    for _ in range(100):
        assert decoder.feed(b": alive\nunknown: field\n") == []
        assert decoder.feed(b"event: e\nid: 1\n") == []
    assert decoder.feed(b"data: x\n\n") == [b"x"]


def test_after_an_error_it_says_nothing_more() -> None:
    decoder = small()
    decoder.feed(b"id: 5\nretry: 7\ndata: x\n\nid: 6\n" + b"y" * (LINE + 1))
    error = decoder.error
    for chunk in (b"\n", b"data: z\n\n", b"", b"retry: 8\n\n:\n\n", b"y" * 1000):
        assert decoder.feed(chunk) == []
    assert decoder.error is error
    assert (decoder.last_event_id, decoder.retry) == ("5", 7)


def test_the_error_says_what_is_wrong() -> None:
    for what, says in (("line", "a line of the stream"), ("event", "an event of the stream")):
        assert str(TooLong(what, MAX_LINE, b"\x1b[2Jx")) == f"{says} is longer than 1,048,576 bytes"


@each_of("size", [1000, 10 * 1024 * 1024])
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


@pytest.mark.long
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
            (data,) = decoder.feed(b"\n\n")
            assert len(data) == length
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
    most, left = peak(iter([burst] * 60))
    assert most < 100_000
    assert left < 2_000


@pytest.mark.parametrize("size", [pytest.param(100, marks=pytest.mark.long), 4096])
def test_a_large_event_in_small_pieces_is_held_once_and_joined_once(size: int) -> None:
    event = (b"data: " + b"x" * 1000 + b"\n") * 4150 + b"\n"
    assert MAX_EVENT - 100_000 < len(event) - 7 * 4150 < MAX_EVENT
    most, left = peak(pieces(event, size))
    assert most < 2.5 * MAX_EVENT
    assert left < 2_000


def test_the_smallest_lines_do_not_take_more_room_than_their_bytes() -> None:
    most, left = peak(iter([b"data:12\n" * 100] * 100))
    assert most < 2.5 * 30_000
    assert left > 29_000  # the event goes on


@each_of("stream", [b"x" * 65_536, b"data: " + b"x" * 65_529 + b"\n"], ids=["line", "event"])
def test_after_an_error_nothing_is_kept(stream: bytes) -> None:
    most, left = peak(iter([stream] * 200))
    assert most < 2.5 * MAX_EVENT
    assert left < HEAD + 5_000


# Against a reading line by line and against httpx-sse, on streams nobody would type

ENDS = (b"\n", b"\r", b"\r\n")
SIGNAL = b'data: {"type":"signal","id":"sig_1","confidence":0.87}\n\n'
WORDS = (
    *ENDS,
    *ENDS,
    b"\n\n",
    b"\r\r",
    b"\r\n\r\n",
    b"data",
    b"data:",
    b"data: ",
    b"data: x\n",
    b"event",
    b"event: e",
    b"id",
    b"id: 1",
    b"retry",
    b"retry: ",
    b"30",
    b":",
    b" ",
    b"\0",
    b"x",
    b"\xef\xbb\xbf",
    b"\xef\xbb",
    "ä€🚀".encode(),
    b"\xe2\x82",
    b"\xf0\x9f",
    b"\xff",
    b"\xc3",
    "\u2028\u2029\x85\x0b\x0c".encode(),
    SIGNAL,
    SIGNAL * 3,
    SIGNAL.replace(b"\n", b"\r\n"),
)
words = st.lists(st.sampled_from(WORDS) | st.binary(max_size=4), max_size=40).map(b"".join)
lines = st.builds(
    lambda parts: b"".join(name + value + end for name, value, end in parts),
    st.lists(
        st.tuples(
            st.sampled_from(
                [b"data: ", b"data:", b"data", b"event: ", b"id: ", b"retry: ", b":", b"", b"", b"other: "]
            ),
            st.sampled_from([b"", b"", b"x", b" x", b"12", b"a:b", b"\0", b"\xc3"]),
            st.sampled_from(ENDS),
        ),
        max_size=25,
    ),
)
streams = words | lines
many = settings(max_examples=2 * settings().max_examples)


def cut_at(stream: bytes, places: list[int]) -> Iterator[bytes]:
    for start, end in pairwise([0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]):
        yield stream[start:end]


cuts = st.lists(st.integers(0, 5000), max_size=12)


@many
@given(streams, cuts, st.integers(2, 30) | st.just(MAX_LINE), st.integers(0, 40) | st.just(MAX_EVENT))
def test_limits_fall_where_they_should_however_it_is_cut(
    stream: bytes, places: list[int], line: int, event: int
) -> None:
    """Two bytes may be the start of a byte order mark."""

    def limited(chunks: Iterator[bytes]) -> tuple[object, ...]:
        decoder = SSEDecoder(max_line=line, max_event=event)
        events = [data for chunk in chunks for data in decoder.feed(chunk)]
        error = decoder.error
        said = None if error is None else (error.what, error.limit, error.head)
        return events, said, decoder.last_event_id, decoder.retry

    assert limited(cut_at(stream, places)) == (whole := limited(iter([stream])))
    assert whole[:2] == by_hand(stream, line, event)


def by_hand(stream: bytes, longest: int, largest: int) -> tuple[object, object]:
    """What limits make of a stream: its lines one at a time, each into a decoder without any."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *ended, rest = text.split(b"\n")
    decoder, data = SSEDecoder(), b""
    assert decoder.feed(b"\n") == []  # a second byte order mark is none
    events: list[bytes] = []
    for line in ended:
        if len(line) > longest:
            return events, ("line", longest, line[:longest])
        if line == b"":
            data = b""
        elif line == b"data" or line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            if len(data) + len(value) > largest:
                return events, ("event", largest, (data + value)[:largest])
            data += value + b"\n"
        events += decoder.feed(line + b"\n")
    return events, ("line", longest, rest[:longest]) if len(rest) > longest else None


# What httpx-sse 0.4.3 reads as the standard does: text without a byte order mark, data in every event, no NUL in an id,
# nothing but digits in a retry.
plain = st.text(st.characters(blacklist_characters="\r\n\0\ufeff", blacklist_categories=["Cs"]), max_size=8)
fields = st.one_of(
    plain.map("data: {}".format),
    plain.map("data:{}".format),
    plain.map("event: {}".format),
    plain.map("id: {}".format),
    plain.map(": {}".format),
    st.integers(0, 10**6).map("retry: {}".format),
    st.sampled_from(["data", "event", "id", "other", "other: x"]),
)
blocks = st.tuples(st.lists(fields, max_size=4), plain.map("data: {}".format), st.lists(fields, max_size=4)).map(
    lambda parts: [*parts[0], parts[1], *parts[2]]
)


@given(st.lists(blocks, max_size=8), st.sampled_from(["\n", "\r", "\r\n"]), cuts)
def test_as_httpx_sse_reads_it(written: list[list[str]], end: str, places: list[int]) -> None:
    stream = "".join(line + end for block in written for line in [*block, ""]).encode()
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=cut_at(stream, places))
    theirs = [(event.data, event.id) for event in EventSource(response).iter_sse()]
    assert outcome(cut_at(stream, places))[0] == [data for data, _ in theirs]
    assert byte_by_byte(stream) == theirs
    assert len(theirs) == len(written)
