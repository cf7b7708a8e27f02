"""Reading a body: gzip undone, a size that is never passed, and a word for everything that is wrong with it."""

import gzip
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from tradesdk._http.response import MAX_BODY, MAX_ERROR_BODY, BodyReader

from .._rows import each_of

MIB = 1024 * 1024


def read(data: bytes, coding: str = "gzip", *, status: int = 200, size: int = 65_536) -> tuple[bytes, str | None, int]:
    """Body, problem, and how many bytes were taken."""
    reader = BodyReader(status, coding)
    taken = 0
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        taken += len(piece)
        if not reader.feed(piece):
            break
    return reader.content(), reader.problem, taken


@given(st.binary(max_size=2000), st.integers(1, 2100), st.sampled_from(["", "identity", "gzip", "x-gzip", " GZIP "]))
def test_a_body_in_pieces_of_any_size(body: bytes, size: int, coding: str) -> None:
    data = gzip.compress(body) if "zip" in coding.lower() else body
    assert read(data, coding, size=size)[:2] == (body, None)


@each_of("coding", ["br", "deflate", "zstd", "compress", "gzip, gzip", "gzip, br", "x\x1b[2J", "x" * 10_000])
def test_any_other_coding_is_a_problem_that_can_be_printed(coding: str) -> None:
    problem = BodyReader(200, coding).problem
    assert problem is not None
    assert "only gzip is accepted" in problem
    assert problem.isprintable()
    assert len(problem) < 150


@each_of("coding", ["", "gzip"])
def test_a_body_of_exactly_the_maximum_is_taken(coding: str) -> None:
    body = bytes(MAX_BODY)
    assert read(gzip.compress(body) if coding else body, coding)[:2] == (body, None)


@each_of("coding", ["", "gzip"])
@each_of("size", [65_536, 64 * MIB])
def test_a_larger_body_is_cut_and_named(coding: str, size: int) -> None:
    body = bytes(MAX_BODY + 1)
    content, problem, _ = read(gzip.compress(body) if coding else body, coding, size=size)
    assert len(content) == MAX_BODY
    assert problem == "it is larger than 4 MiB"


@each_of("coding", ["", "gzip"])
def test_an_error_body_is_cut_without_a_word(coding: str) -> None:
    body = b"x" * (MAX_ERROR_BODY + 5000)
    content, problem, _ = read(gzip.compress(body) if coding else body, coding, status=500)
    assert (content, problem) == (body[:MAX_ERROR_BODY], None)


def test_a_bomb_takes_no_more_memory_than_a_body() -> None:
    bomb = gzip.compress(bytes(40 * MIB), 1)
    tracemalloc.start()
    try:
        _, problem, _ = read(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert problem == "it is larger than 4 MiB"
    assert peak < 4 * MAX_BODY


@each_of(
    "start",
    [
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + b"\x00\x00\x00\xff\xff" * (3 * MIB),  # blocks of nothing
        b"\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff" + b"x" * 15 * MIB,  # a file name without end
    ],
    ids=["blocks", "name"],
)
def test_a_coding_that_goes_on_without_a_result_ends(start: bytes) -> None:
    content, problem, taken = read(start)
    assert (content, problem) == (b"", "it is larger than 4 MiB")
    assert taken <= 2 * MAX_BODY + 65_536
    assert read(start, status=500)[2] <= 2 * MAX_ERROR_BODY + 65_536


WHOLE = gzip.compress(b'{"id": "acc_1", "plan": "pro"}' * 50, mtime=0)


@given(st.integers(1, len(WHOLE) - 1), st.integers(1, 100))
def test_gzip_that_is_cut_short_is_a_problem_wherever_it_ends(end: int, size: int) -> None:
    assert read(WHOLE[:end], size=size)[1] == "its gzip is cut short"


def test_damage_is_a_problem() -> None:
    for place in (-1, -5, 20):
        broken = bytearray(WHOLE)
        broken[place] ^= 0xFF
        assert read(bytes(broken))[1] == "its gzip is damaged"
    assert read(WHOLE + WHOLE[:2] + b"\x00" * 20)[1] == "its gzip is damaged"
    assert read(b"")[:2] == (b"", None)


@given(st.lists(st.binary(max_size=300), min_size=2, max_size=6), st.integers(1, 400), st.booleans())
def test_several_members_are_one_body(parts: list[bytes], size: int, cut: bool) -> None:
    data = b"".join(gzip.compress(part, mtime=0) for part in parts)
    if cut:
        assert read(data[:-1], size=size)[1] == "its gzip is cut short"
    else:
        assert read(data, size=size) == (b"".join(parts), None, len(data))


@each_of("size", [7_777, 65_536])
def test_the_maximum_is_for_all_members_together(size: int) -> None:
    mebibyte = gzip.compress(bytes(MIB))
    assert read(mebibyte * 4, size=size)[:2] == (bytes(MAX_BODY), None)
    content, problem, _ = read(mebibyte * 4 + gzip.compress(b"x"), size=size)
    assert (content, problem) == (bytes(MAX_BODY), "it is larger than 4 MiB")


def test_members_without_a_result_end() -> None:
    _, problem, taken = read(gzip.compress(b"{}") + gzip.compress(b"") * 500_000)
    assert problem == "it has data after the end of its gzip"
    assert taken < MIB


@each_of("more", [b"x", b"\x00", b"\n", b"\x1fx", b"{}"])
@each_of("size", [7, 65_536])
def test_what_follows_the_coding_is_a_problem(more: bytes, size: int) -> None:
    content, problem, _ = read(gzip.compress(b"{}") + more, size=size)
    assert (content, problem) == (b"{}", "it has data after the end of its gzip")


@given(st.binary(max_size=300), st.integers(1, 50), st.sampled_from([200, 404, 503]))
def test_no_bytes_make_it_raise(data: bytes, size: int, status: int) -> None:
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    for stream in (data, head + data, WHOLE + data):
        content, problem, _ = read(stream, size=size, status=status)
        assert len(content) <= MAX_BODY
        assert problem is None or problem.isprintable()
