"""The kinds of faults: their names, their parameters, and what a parameter may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..core.errors import MockServerError
from . import payment_faults
from .faultchecks import (
    LONGEST,
    MONTH,
    Check,
    choice,
    content,
    encoded,
    flag,
    header_value,
    headers,
    integer,
    number,
    share,
    shown,
    wait,
    words,
)
from .rules import CONDITIONS


@dataclass(frozen=True, slots=True)
class FaultParameter:
    """What a kind of fault can be told.

    Attributes:
        name: the argument of `add_fault`.
        default: what holds when it is left out; None stands for what `text` says.
        text: what it is about, with its unit.
    """

    name: str
    default: object
    text: str


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A thing that can go wrong.

    Attributes:
        name: the first argument of `add_fault`.
        on: `response`: any answer; `stream`: the live stream, once it has begun; `payment`: what is paid for.
        text: what happens.
        parameters: what it can be told; all of them may be left out, but for `text` or `base64`, where a kind has them.
    """

    name: str
    on: Literal["response", "stream", "payment"]
    text: str
    parameters: tuple[FaultParameter, ...]


_Spec = tuple[FaultParameter, Check]


def _given(name: str, default: object, text: str, check: Check) -> _Spec:
    return FaultParameter(name, default, text), check


_AFTER_BYTES = integer(0, 2**40)
_AFTER_EVENTS = integer(0, 10**9)
_EXECUTED = _given("executed", False, "the request is carried out first, and only its answer lost", flag)
_CUT = _given("after", None, "bytes of the body that come before; half of it when left out", _AFTER_BYTES)
_CONTENT = (
    _given("text", None, "what comes, in UTF-8; at most 8 MiB, and 1 MiB over the control API", content),
    _given("base64", None, "the same for bytes of any sort; a rule has one of both", encoded),
)


def _some(what: str) -> tuple[_Spec, ...]:
    return (
        _given("after", 0, f"so many {what}s come unharmed first", _AFTER_EVENTS),
        _given("each", 1, f"then at every n-th {what}", integer(1, 10**9)),
        _given("share", 1.0, "of those only this share, up to 1; which ones follows from the seed", share),
    )


def _count_of_events(default: int) -> _Spec:
    return _given("after", default, "so many events come first (heartbeats are events)", _AFTER_EVENTS)


_TABLE: tuple[tuple[str, Literal["response", "stream", "payment"], str, tuple[_Spec, ...]], ...] = (
    (
        "latency",
        "response",
        "The answer begins late.",
        (
            _given("seconds", 1.0, "how late; several rules add up", number(0, LONGEST)),
            _given("jitter", 0.0, "up to so many seconds more; how many follows from the seed", number(0, LONGEST)),
        ),
    ),
    (
        "status",
        "response",
        "Another answer: an error body with this status.",
        (
            _given("status", 500, "200 to 599; 204 and 304 have no body", integer(200, 599)),
            _given("code", None, "the error's code; the one that belongs to the status when left out", words),
            _given("message", None, "the error's message; one that names the rule when left out", words),
            _given("headers", None, "names and values, in place of those that the answer would have", headers),
            _given(
                "retry_after",
                None,
                'Retry-After: seconds or a date; 1 with 429 when left out, and "" for none',
                wait,
            ),
            _EXECUTED,
        ),
    ),
    (
        "reset",
        "response",
        "The connection is reset.",
        (
            _EXECUTED,
            _given(
                "after",
                None,
                "the request is carried out, and so many bytes of the body come first; not even a status line when"
                " left out",
                _AFTER_BYTES,
            ),
        ),
    ),
    ("truncate", "response", "The connection closes before the body is whole.", (_CUT,)),
    ("bad_chunk", "response", "The body comes in chunks, and the length of one is no number.", (_CUT,)),
    (
        "body",
        "response",
        "The answer has another body; its status stays.",
        (
            *_CONTENT,
            _given("content_type", None, "what it says that it is; as before when left out", header_value),
            _given("headers", None, 'more of them, such as {"content-encoding": "gzip"}', headers),
        ),
    ),
    ("malformed_json", "response", "The body has its last character spoiled, so that it isn't JSON.", ()),
    (
        "content_type",
        "response",
        "The answer says that it is something else.",
        (_given("value", "text/html", "the header's value", header_value),),
    ),
    (
        "huge_body",
        "response",
        "The body is filled up with white space in front; it stays valid JSON.",
        (_given("mib", 5.0, "how large, in MiB; at most 1,024", number(0.001, 1_024)),),
    ),
    (
        "drip",
        "response",
        "The body comes in small pieces, slowly.",
        (
            _given("piece", 16, "bytes of a piece", integer(1, 2**30)),
            _given("seconds", 0.1, "between one piece and the next", number(0, LONGEST)),
        ),
    ),
    (
        "drop",
        "stream",
        "The stream ends.",
        (
            _count_of_events(1),
            _given(
                "how",
                "close",
                "clean: as an answer ends; close: in the middle of one; reset: torn down",
                choice("clean", "close", "reset"),
            ),
        ),
    ),
    (
        "half_event",
        "stream",
        "Half of an event comes, then the connection ends.",
        (
            _count_of_events(1),
            _given(
                "at",
                "middle",
                "where it is cut: middle, or character: inside one of several bytes, brought if there is none",
                choice("middle", "character"),
            ),
            _given("how", "close", "close, or reset: torn down", choice("close", "reset")),
        ),
    ),
    (
        "silence",
        "stream",
        "Nothing more comes, not even heartbeats; the connection stays open.",
        (
            _count_of_events(1),
            _given(
                "seconds",
                None,
                "of the mock's clock; what was held back comes after them, and nothing ever again when left out",
                number(0, MONTH),
            ),
            _given(
                "comments",
                None,
                "seconds of the mock's clock between comment lines that come all the same; none when left out",
                number(0.001, MONTH),
            ),
        ),
    ),
    ("skip", "stream", "Signals are left out of this stream; they are in the history.", _some("signal")),
    ("duplicate", "stream", "Events come twice.", _some("event")),
    (
        "reorder",
        "stream",
        "Signals are held back and come in another order.",
        (
            _given("window", 2, "so many at a time, 2 to 1,000", integer(2, 1_000)),
            _given(
                "seconds", 5.0, "of the mock's clock; after them, those that are held come anyway", number(0, MONTH)
            ),
        ),
    ),
    (
        "garbage",
        "stream",
        "Before events come unknown fields, senseless lines, invalid UTF-8 and events that are no JSON.",
        _some("event"),
    ),
    (
        "inject",
        "stream",
        "Bytes of your own come between two events.",
        (
            _given("after", 0, "behind so many events, when the next one comes", _AFTER_EVENTS),
            *_CONTENT,
        ),
    ),
    ("bom", "stream", "The stream begins with a byte order mark.", ()),
    (
        "line_endings",
        "stream",
        "Lines don't end in LF.",
        (_given("style", "crlf", "cr, lf, crlf or mixed", choice("cr", "lf", "crlf", "mixed")),),
    ),
    ("split_utf8", "stream", "Chunks end inside a character; where an event has none, a comment brings one.", ()),
    *((name, "payment", text, tuple(_given(*spec) for spec in specs)) for name, text, specs in payment_faults.KINDS),
)

KINDS = {name: FaultKind(name, on, text, tuple(spec for spec, _ in specs)) for name, on, text, specs in _TABLE}
_CHECKS = {name: {spec.name: check for spec, check in specs} for name, _, _, specs in _TABLE}


def describe() -> list[FaultKind]:
    """Every kind of fault, with its parameters."""
    return list(KINDS.values())


def parameters(kind: object, given: Mapping[str, object]) -> dict[str, object]:
    """What a rule of this kind keeps: what was given, checked, and the defaults. MockServerError for anything else."""
    if not isinstance(kind, str):
        example = 'add_fault("status", status=503)'
        raise MockServerError(f"kind: must be the name of a kind, as in {example}, not of type {type(kind).__name__}")
    known = KINDS.get(kind)
    if known is None:
        raise MockServerError(f"there is no fault {shown(kind)}; there are: {', '.join(KINDS)}")
    checks = _CHECKS[known.name]
    found = {spec.name: spec.default for spec in known.parameters}
    for name, value in given.items():
        check = checks.get(name)
        if check is None:
            there = f"it has {', '.join(checks)}" if checks else "it has none"
            conditions = f"conditions are {', '.join(CONDITIONS)}"
            raise MockServerError(f"fault {known.name} has no parameter {shown(name)}; {there}; {conditions}")
        if value is None:
            continue
        try:
            found[name] = check(value)
        except ValueError as error:
            raise MockServerError(f"fault {known.name}: {name}: {error}") from None
    if "base64" in checks and (found["text"] is None) == (found["base64"] is None):
        raise MockServerError(f"fault {known.name}: text, base64: it needs one of them, and not both")
    return {name: value for name, value in found.items() if value is not None}
