"""The decoder against a slow reading of the standard and against httpx-sse, on streams nobody would type."""

import codecs
from collections.abc import Iterator
from itertools import pairwise

import httpx
from httpx_sse import EventSource
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk._stream.sse import SSEDecoder

from .._sse_reference import Reading, read, utf8_decode

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
many = settings(max_examples=500)


def cut(stream: bytes, places: list[int]) -> Iterator[bytes]:
    for start, end in pairwise([0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]):
        yield stream[start:end]


cuts = st.lists(st.integers(0, 5000), max_size=12)


def ours(chunks: Iterator[bytes]) -> Reading:
    decoder = SSEDecoder()
    events = [(event.text, event.event, event.id) for chunk in chunks for event in decoder.feed(chunk)]
    assert decoder.error is None
    return Reading(events, decoder.last_event_id, decoder.retry, decoder.comments)


def expected(stream: bytes) -> Reading:
    reading = read(stream)
    reading.lines = []
    if reading.retry is not None:
        reading.retry = min(reading.retry, 10**15)
    return reading


@many
@given(streams, cuts)
def test_as_the_slow_reading_says(stream: bytes, places: list[int]) -> None:
    assert ours(cut(stream, places)) == expected(stream)


@given(streams)
def test_byte_by_byte(stream: bytes) -> None:
    """After each byte it is where the slow reading of all bytes so far is."""
    decoder = SSEDecoder()
    events: list[tuple[str, str, str]] = []
    for place in range(len(stream)):
        events += [(event.text, event.event, event.id) for event in decoder.feed(stream[place : place + 1])]
        reading = expected(stream[: place + 1])
        assert Reading(events, decoder.last_event_id, decoder.retry, decoder.comments) == reading


@given(
    st.lists(
        st.sampled_from([SIGNAL, SIGNAL, SIGNAL, b"data: \xff\n\n", b": alive\n\n", b"id: 2\n", b"data\n\n", b"\n"])
    )
)
def test_signals_with_little_between_them(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    assert ours(iter([stream])) == expected(stream)
    assert ours(iter(parts)) == expected(stream)


@many
@given(streams, cuts, st.integers(2, 30), st.integers(0, 40))  # two bytes may be the start of a byte order mark
def test_limits_fall_where_they_should_however_it_is_cut(
    stream: bytes, places: list[int], line: int, event: int
) -> None:
    def limited(chunks: Iterator[bytes]) -> tuple[object, ...]:
        decoder = SSEDecoder(max_line=line, max_event=event)
        events = [(event.data, event.event, event.id) for chunk in chunks for event in decoder.feed(chunk)]
        error = decoder.error
        said = None if error is None else (error.what, error.limit, error.head)
        return events, said, decoder.last_event_id, decoder.retry, decoder.comments

    assert limited(cut(stream, places)) == (whole := limited(iter([stream])))
    assert whole[:2] == by_hand(stream, line, event)


def by_hand(stream: bytes, longest: int, largest: int) -> tuple[object, object]:
    """What limits make of a stream: its lines one at a time, each into a decoder without any."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *ended, rest = text.split(b"\n")
    decoder, data = SSEDecoder(), b""
    events: list[tuple[bytes, str, str]] = []
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
        events += [(event.data, event.event, event.id) for event in decoder.feed(line + b"\n")]
    return events, ("line", longest, rest[:longest]) if len(rest) > longest else None


@many
@given(st.binary(max_size=60) | words, cuts)
def test_replacing_what_is_not_utf8_does_not_depend_on_when_it_is_decoded(stream: bytes, places: list[int]) -> None:
    """All at once, bit by bit, as the Encoding standard says, and by lines joined afterwards."""
    by_standard = utf8_decode(b"x" + stream)[1:]  # a byte order mark is another matter
    assert stream.decode("utf-8", "replace") == by_standard
    bits = codecs.getincrementaldecoder("utf-8")("replace")
    assert "".join(bits.decode(part) for part in cut(stream, places)) + bits.decode(b"", True) == by_standard
    assert "\n".join(line.decode("utf-8", "replace") for line in stream.split(b"\n")) == by_standard


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
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=cut(stream, places))
    theirs = [(event.data, event.event, event.id) for event in EventSource(response).iter_sse()]
    reading = ours(cut(stream, places))
    assert [(data, kind or "message", last_id) for data, kind, last_id in reading.events] == theirs
    assert len(theirs) == len(written)
