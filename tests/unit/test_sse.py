"""Event streams, typed from the HTML standard: what each one says, however its bytes are cut."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

import pytest

from tradesdk._stream.sse import LONGEST_RETRY, ServerSentEvent, SSEDecoder

from .._sse_reference import read

BOM = b"\xef\xbb\xbf"


class Case(NamedTuple):
    stream: bytes
    events: list[tuple[str, str, str]]  # data, type, last event id
    last_event_id: str = ""
    retry: int | None = None


def messages(*data: str) -> list[tuple[str, str, str]]:
    return [(one, "", "") for one in data]


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
        [("73857293", "add", ""), ("2153", "remove", ""), ("113411", "add", "")],
    ),
    "example: stocks": Case(b"data: YHOO\ndata: +2\ndata: 10\n\n", messages("YHOO\n+2\n10")),
    "example: four blocks": Case(
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        [("first event", "", "1"), ("second event", "", ""), (" third event", "", "")],
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
    "order of fields": Case(b"data: a\nid: 1\nevent: e\ndata: b\n\n", [("a\nb", "e", "1")], "1"),
    # types
    "type": Case(b"event: a\ndata: x\n\ndata: y\n\n", [("x", "a", ""), ("y", "", "")]),
    "last type counts": Case(
        b"event: a\nevent: b\ndata: x\n\nevent: a\nevent\ndata: y\n\n", [("x", "b", ""), ("y", "", "")]
    ),
    "type without data is forgotten": Case(b"event: a\n\ndata: x\n\n", messages("x")),
    "type is taken as it is": Case("event:  ä b \ndata: x\n\n".encode(), [("x", " ä b ", "")]),
    "type message": Case(b"event: message\ndata: x\n\n", [("x", "message", "")]),
    # ids
    "id stays": Case(
        b"id: 1\ndata: x\n\ndata: y\n\nid: 2\ndata: z\n\n", [("x", "", "1"), ("y", "", "1"), ("z", "", "2")], "2"
    ),
    "id without data": Case(b"id: 1\n\ndata: x\n\n", [("x", "", "1")], "1"),
    "id without data at the end": Case(b"data: x\n\nid: 1\n\n", messages("x"), "1"),
    "id of an event cut off": Case(b"id: 1\ndata: x\n\nid: 2\ndata: y\n", [("x", "", "1")], "1"),
    "id taken back": Case(b"id: 1\ndata: x\n\nid\ndata: y\n\n", [("x", "", "1"), ("y", "", "")]),
    "id with nul": Case(b"id: 1\ndata: x\n\nid: 2\0\ndata: y\n\n", [("x", "", "1"), ("y", "", "1")], "1"),
    "id with nul does not undo one": Case(b"id: 1\nid: \0\ndata: x\n\n", [("x", "", "1")], "1"),
    "id as it is": Case("id:  ü:\u2028 \ndata: x\n\n".encode(), [("x", "", " ü:\u2028 ")], " ü:\u2028 "),
    "id after a message in the same bytes": Case(
        b"data: a\n\ndata: b\n\nid: 9\ndata: c\n\ndata: d\n\n",
        [("a", "", ""), ("b", "", ""), ("c", "", "9"), ("d", "", "9")],
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
    "broken type and id": Case(b"event: \xff\nid: \xe2\x82\ndata: x\n\n", [("x", "\ufffd", "\ufffd")], "\ufffd"),
    "broken character before an end": Case(b"data: \xe2\x82\r\n\r\ndata\xc3: x\n\n", messages("\ufffd")),
    "characters of four bytes": Case("data: 🚀ä€\n\n".encode(), messages("🚀ä€")),
}
SHORT = {name: case for name, case in CASES.items() if len(case.stream) <= 60}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def outcome(chunks: Iterable[bytes]) -> Case:
    decoder = SSEDecoder()
    seen = [(event.text, event.event, event.id) for chunk in chunks for event in decoder.feed(chunk)]
    decoder.close()
    assert decoder.error is None
    return Case(b"", seen, decoder.last_event_id, decoder.retry)


def cut(stream: bytes, *places: int) -> Iterator[bytes]:
    for start, end in zip((0, *places), (*places, len(stream)), strict=True):
        yield stream[start:end]


@each_case
def test_whole(case: Case) -> None:
    assert outcome([case.stream]) == case._replace(stream=b"")


@each_case
def test_the_slow_reading_agrees(case: Case) -> None:
    reading = read(case.stream)
    assert (reading.events, reading.last_event_id, reading.retry) == case[1:]


@each_case
def test_cut_at_every_byte(case: Case) -> None:
    expected = case._replace(stream=b"")
    for place in range(len(case.stream) + 1):
        assert outcome(cut(case.stream, place)) == expected, place


@pytest.mark.parametrize("case", SHORT.values(), ids=SHORT.keys())
def test_cut_at_every_two_bytes(case: Case) -> None:
    expected = case._replace(stream=b"")
    for places in combinations(range(len(case.stream) + 1), 2):
        assert outcome(cut(case.stream, *places)) == expected, places


@each_case
def test_byte_by_byte_with_nothing_between(case: Case) -> None:
    chunks = [part for byte in case.stream for part in (b"", bytes([byte]), b"")]
    assert outcome(chunks) == case._replace(stream=b"")


@each_case
def test_nothing_comes_later_than_it_could(case: Case) -> None:
    """After every single byte it has said what those bytes say, also after a CR that may yet become CR LF."""
    decoder = SSEDecoder()
    seen: list[tuple[str, str, str]] = []
    for place in range(len(case.stream)):
        seen += [(event.text, event.event, event.id) for event in decoder.feed(case.stream[place : place + 1])]
        reading = read(case.stream[: place + 1])
        assert seen == reading.events
        assert (decoder.last_event_id, decoder.retry) == (reading.last_event_id, reading.retry)
        assert decoder.comments == reading.comments


def test_data_stays_bytes() -> None:
    (event,) = SSEDecoder().feed(b"id: a\nevent: b\ndata: \xffx\r\ndata:\xc3\n\n")
    assert event == ServerSentEvent(b"\xffx\n\xc3", "b", "a")
    assert event.text == "\ufffdx\n\ufffd"
    assert repr(event) == r"ServerSentEvent(data=b'\xffx\n\xc3', event='b', id='a')"
    for other in (ServerSentEvent(b"\xffx\n", "b", "a"), ServerSentEvent(event.data, "", "a"), "b"):
        assert event != other
    assert isinstance(ServerSentEvent(event.data, "b", "b").data, bytes)
    assert ServerSentEvent(event.data, "b", "b") != event


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
    assert decoder.feed(b"\n") == [ServerSentEvent(b"x", "", "4")]
    assert decoder.last_event_id == "4"


def test_after_the_end_nothing_can_be_fed() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"id: 1\ndata: x\n\nid: 2\ndata: y\n")
    decoder.close()
    decoder.close()
    assert decoder.last_event_id == "1"
    for chunk in (b"\n", b""):
        with pytest.raises(RuntimeError, match="ended"):
            decoder.feed(chunk)
