"""The kinds of faults, their parameters, the conditions of rules, and the checks of all of them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..core.checks import Check, checked, checked_by, checks_of, choice, integer, is_text, number, quoted, text
from ..core.clock import END
from ..core.errors import MockServerError

_LONGEST = 3_600
_MONTH = 31 * 86_400
_MOST_BYTES = 8 * 2**20
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_METHOD = re.compile(r"[A-Za-z]{1,20}", re.ASCII)
_LINE = r"(?:[!-~](?:[ \t!-~]*[!-~])?)?"
_MOST_JSON = 2**20
_FRAMING = ("content-length", "transfer-encoding", "connection")

FaultTarget = Literal["response", "stream", "payment", "node"]


def flag(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def words(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)  # on a command line they are the same
    if not is_text(value, 2_000):
        raise ValueError("must be text of at most 2,000 characters")
    return value


header_value = text(2_000, _LINE, "printable ASCII of at most 2,000 characters, as a header's value is")
_line = text(_MOST_JSON, _LINE, "printable ASCII of at most 1 MiB, as a header's value is")


def wait(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be whole seconds, or text such as a date")
    return header_value(value) if isinstance(value, str) else integer(0, 10**9)(value)


def headers(value: object) -> object:
    if not isinstance(value, dict) or len(value) > 50:
        raise ValueError("must be an object of at most 50 names and values")
    found = {}
    for name, each in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{quoted(name)} is not the name of a header")
        if name.lower() in _FRAMING:
            raise ValueError(f"{name.lower()} sets where the body ends: use truncate or bad_chunk instead")
        if isinstance(each, int | float) and not isinstance(each, bool):
            each = str(each)
        try:
            found[name] = header_value(each)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def share(value: object) -> object:
    found = number(0, 1)(value)
    if not found:
        raise ValueError("must be above 0: with 0 the fault would never apply")
    return found


def content(value: object) -> object:
    """Text to send unchanged."""
    if not is_text(value, _MOST_BYTES) or len(str(value).encode()) > _MOST_BYTES:
        raise ValueError("must be text of at most 8 MiB in UTF-8")
    return value


def encoded(value: object) -> object:
    """Bytes as base64, for content that is not text."""
    if not isinstance(value, str) or len(value) > _MOST_BYTES * 4 // 3 + 4:
        raise ValueError("must be base64 of at most 8 MiB")
    try:
        found = base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("must be base64, with its padding and without line breaks") from None
    if len(found) > _MOST_BYTES:
        raise ValueError("must be base64 of at most 8 MiB")
    return value


def _fields(value: object) -> object:
    if not isinstance(value, Mapping) or not value or len(value) > 50:
        raise ValueError("must be an object of 1 to 50 names and values")
    if not all(isinstance(name, str) for name in value):
        raise ValueError("must have text for names")
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("must be JSON") from None
    if len(text) > _MOST_JSON or "\\ud" in text.lower():
        raise ValueError("must be JSON of at most 1 MiB, in characters that UTF-8 has")
    return json.loads(text)


@dataclass(frozen=True, slots=True)
class FaultParameter:
    """A parameter of a kind of fault.

    Attributes:
        name: the argument of `add_fault`.
        default: its default; None if `text` describes it.
        text: what it does, with its unit.
    """

    name: str
    default: object
    text: str


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault.

    Attributes:
        name: the first argument of `add_fault`.
        on: `response`: any response; `stream`: the live stream, once it has begun; `payment`: paid requests; `node`:
            the node of the chain at `/rpc`.
        text: what happens.
        parameters: all are optional, except that `body` and `inject` need `text` or `base64`.
    """

    name: str
    on: FaultTarget
    text: str
    parameters: tuple[FaultParameter, ...]


_Spec = tuple[object, str, Check]
"""Default, text and check of a parameter."""


def _kind(text: str, /, **parameters: _Spec) -> tuple[str, dict[str, _Spec]]:
    return text, parameters


_CHARGED = (False, "the money is taken anyway", flag)
_AFTER_BYTES = integer(0, 2**40)
_AFTER_EVENTS = integer(0, 10**9)
_EXECUTED = (False, "the request is carried out, and only its response is lost", flag)
_CUT = (None, "bytes of the body to send first; by default half of it", _AFTER_BYTES)
_EVENTS_FIRST = (1, "events to send first (heartbeats are events)", _AFTER_EVENTS)
_CONTENT = {
    "text": (None, "the content, sent as UTF-8; at most 8 MiB, and 1 MiB over the control API", content),
    "base64": (None, "the content as base64, for any bytes; a rule has either text or base64", encoded),
}


def _some(what: str) -> dict[str, _Spec]:
    return {
        "after": (0, f"{what}s to send unchanged first", _AFTER_EVENTS),
        "each": (1, f"then apply to every n-th {what}", integer(1, 10**9)),
        "share": (1.0, "apply to this share of those, up to 1; the seed decides which", share),
    }


_TABLE: dict[FaultTarget, dict[str, tuple[str, dict[str, _Spec]]]] = {
    "response": {
        "latency": _kind(
            "The response starts late.",
            seconds=(1.0, "length of the delay; several rules add up", number(0, _LONGEST)),
            jitter=(0.0, "up to this many seconds more; the seed decides how many", number(0, _LONGEST)),
        ),
        "status": _kind(
            "An error with this status replaces the response.",
            status=(500, "200 to 599; 204 and 304 have no body", integer(200, 599)),
            code=(None, "the error's code; by default the usual one of the status", words),
            message=(None, "the error's message; by default one that names the rule", words),
            headers=(None, "headers to set, in place of those with these names", headers),
            retry_after=(None, 'Retry-After: seconds or a date; by default 1 with 429; "" for none', wait),
            executed=_EXECUTED,
        ),
        "reset": _kind(
            "The connection is reset.",
            executed=_EXECUTED,
            after=(
                None,
                "carry out the request and send this many bytes of the body first; by default not even a status line",
                _AFTER_BYTES,
            ),
        ),
        "truncate": _kind("The connection closes before the end of the body.", after=_CUT),
        "bad_chunk": _kind("The body is chunked, and one chunk length is not a number.", after=_CUT),
        "body": _kind(
            "The response has another body; its status stays the same.",
            **_CONTENT,
            content_type=(None, "the Content-Type; by default unchanged", header_value),
            headers=(None, 'headers to set, such as {"content-encoding": "gzip"}', headers),
        ),
        "malformed_json": _kind("The last character of the body is wrong, so that it isn't JSON."),
        "content_type": _kind(
            "The response has another Content-Type.", value=("text/html", "the header's value", header_value)
        ),
        "huge_body": _kind(
            "White space before the body makes it large; it stays valid JSON.",
            mib=(5.0, "size in MiB, at most 1,024", number(0.001, 1_024)),
        ),
        "drip": _kind(
            "The body is sent slowly, in small pieces.",
            piece=(16, "bytes in a piece", integer(1, 2**30)),
            seconds=(0.1, "between two pieces", number(0, _LONGEST)),
        ),
    },
    "stream": {
        "drop": _kind(
            "The stream ends.",
            after=_EVENTS_FIRST,
            how=(
                "close",
                "clean: a complete response; close: the connection closes early; reset: it is reset",
                choice("clean", "close", "reset"),
            ),
        ),
        "half_event": _kind(
            "Half of an event is sent, then the connection ends.",
            after=_EVENTS_FIRST,
            at=(
                "middle",
                "where it is cut: middle, or character: inside a multi-byte character, added if there is none",
                choice("middle", "character"),
            ),
            how=("close", "close, or reset", choice("close", "reset")),
        ),
        "silence": _kind(
            "Nothing more is sent, not even heartbeats; the connection stays open.",
            after=_EVENTS_FIRST,
            seconds=(
                None,
                "on the mock's clock, after which held events are sent; by default nothing is sent ever again",
                number(0, _MONTH),
            ),
            comments=(
                None,
                "seconds of the mock's clock between comment lines; by default there are none",
                number(0.001, _MONTH),
            ),
        ),
        "skip": _kind("The stream leaves out signals; they are in the history.", **_some("signal")),
        "duplicate": _kind("Events are sent twice.", **_some("event")),
        "reorder": _kind(
            "Signals are held back and sent in another order.",
            window=(2, "signals to hold at a time, 2 to 1,000", integer(2, 1_000)),
            seconds=(5.0, "on the mock's clock, after which held signals are sent anyway", number(0, _MONTH)),
        ),
        "garbage": _kind(
            "Unknown fields, meaningless lines, invalid UTF-8 and events that aren't JSON are sent before events.",
            **_some("event"),
        ),
        "inject": _kind(
            "Bytes of your own are sent between two events.",
            after=(0, "events to send first; the bytes are sent just before the next one", _AFTER_EVENTS),
            **_CONTENT,
        ),
        "bom": _kind("The stream starts with a byte order mark."),
        "line_endings": _kind(
            "Lines have other endings.",
            style=("crlf", "cr, lf, crlf or mixed", choice("cr", "lf", "crlf", "mixed")),
        ),
        "split_utf8": _kind("Chunks end inside a multi-byte character; an event without one gets a comment first."),
    },
    "payment": {
        "offer": _kind(
            "The offer of a 402 is changed, and a payment of the changed offer is accepted.",
            fields=(None, "fields of every way to pay; null removes one", _fields),
            top=(None, "fields of the offer itself; null removes one", _fields),
            header=(None, 'raw header of the offer; "" for none', _line),
            body=(None, "raw body of the 402", content),
        ),
        "overlook": _kind("A payment is ignored: 402 with a new offer, as if none had been sent.", charged=_CHARGED),
        "verification": _kind(
            "A payment is refused, valid or not: 402 with a new offer and the reason.",
            reason=("unexpected_verify_error", "the reason", words),
            status=(402, "another status, 400 to 599; the reason is then the error's message", integer(400, 599)),
            charged=(False, "the money is taken anyway, if the chain would take it", flag),
        ),
        "hold": _kind(
            "A copy of the payment is kept, and its money is taken in the last second of its validity unless it was"
            " taken before. The response stays the same."
        ),
        "settlement": _kind(
            "The settlement fails, and the data is withheld: 402 with a receipt that says so.",
            reason=(
                "transaction_failed",
                "the reason; after settlement_pending, the same payment succeeds when it is sent again",
                words,
            ),
            charged=_CHARGED,
        ),
        "receipt": _kind(
            "The receipt of a settled payment is changed.",
            fields=(None, "fields of the receipt; null removes one", _fields),
            raw=(None, "raw value of the header", header_value),
            missing=(False, "send no receipt", flag),
        ),
    },
    "node": {
        "chain_id": _kind("The node is one of another chain.", chain_id=(1, "the chain's id", integer(1, 2**53))),
        "node_lag": _kind(
            "The node is behind: it lacks the newest blocks.",
            seconds=(3_600.0, "of the mock's clock, by which it is behind", number(0, _MONTH)),
        ),
        "node_lie": _kind("The node says the same of every nonce.", used=(False, "what it says: used, or not", flag)),
        "rpc_error": _kind(
            "The node responds with an error of JSON-RPC.",
            call=("*", "the method that fails, such as eth_call; * for all", words),
            code=(-32_601, "the error's code", integer(-99_999, 99_999)),
            message=("the method does not exist/is not available", "the error's message", words),
        ),
    },
}

KINDS = {
    name: FaultKind(name, on, text, tuple(FaultParameter(each, *spec[:2]) for each, spec in specs.items()))
    for on, kinds in _TABLE.items()
    for name, (text, specs) in kinds.items()
}
_CHECKS = {
    name: {each: check for each, (_, _, check) in specs.items()}
    for kinds in _TABLE.values()
    for name, (_, specs) in kinds.items()
}


def fault_kinds() -> list[FaultKind]:
    """Every kind of fault, with its parameters."""
    return list(KINDS.values())


def parameters(kind: object, given: Mapping[str, object]) -> dict[str, object]:
    """The given parameters, checked, and the defaults of the others. MockServerError for an invalid one."""
    if not isinstance(kind, str):
        example = 'add_fault("status", status=503)'
        raise MockServerError(f"kind: must be the name of a kind, as in {example}, not of type {type(kind).__name__}")
    known = KINDS.get(kind)
    if known is None:
        raise MockServerError(f"there is no fault {quoted(kind)}; there are: {', '.join(KINDS)}")
    checks = _CHECKS[known.name]
    found = {spec.name: spec.default for spec in known.parameters}
    for name, value in given.items():
        check = checks.get(name)
        if check is None:
            there = f"it has {', '.join(checks)}" if checks else "it has none"
            conditions = f"conditions are {', '.join(CONDITIONS)}"
            raise MockServerError(f"fault {known.name} has no parameter {quoted(name)}; {there}; {conditions}")
        if value is None:
            continue
        found[name] = checked(f"fault {known.name}: {name}", check, value)
    if "base64" in checks and (found["text"] is None) == (found["base64"] is None):
        raise MockServerError(f"fault {known.name}: text, base64: it needs one of them, and not both")
    return {name: value for name, value in found.items() if value is not None}


def conditions(given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """The given conditions, checked, and the remaining arguments. MockServerError for an invalid one."""
    found = {
        name: checked(name, check, given[name]) for name, check in CONDITIONS.items() if given.get(name) is not None
    }
    if "nth" in found and "every" in found:
        raise MockServerError("nth and every: a rule has one of them, not both")
    return found, {name: value for name, value in given.items() if name not in CONDITIONS}


def _method(value: object) -> object:
    if not isinstance(value, str) or not _METHOD.fullmatch(value):
        raise ValueError(f"must be a method such as GET, not {quoted(value)}")
    return value.upper()


def _query(value: object) -> object:
    if not isinstance(value, Mapping) or not value or len(value) > 20:
        raise ValueError("must be an object of 1 to 20 names and values")
    found = {}
    for name, each in value.items():
        if isinstance(each, int | float) and not isinstance(each, bool):
            each = str(each)
        if not (is_text(name, 200) and is_text(each, 2_000)):
            raise ValueError(f"{quoted(name)}: must be text, at most 200 characters of a name and 2,000 of a value")
        found[name] = each
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """A fault and the requests that it applies to: those that meet all of its conditions.

    Several rules may apply to the same request. Of those that change the same part (two that replace the response, two
    that end a body) only the oldest applies, and the others wait: rules with a `count` are used up one after the other.
    A rule that finds nothing to change (no body, a stream that was refused) doesn't count as applied.

    Attributes:
        id: names the rule in `remove_fault`.
        kind: one of the kinds of `trade mock fault kinds`.
        on: `response`, `stream`, `payment` or `node`.
        parameters: of the kind.
        seen: matching requests so far; for a kind that is on streams, connections.
        fired: how often it was applied.

    All others are conditions, the arguments of `add_fault`; None for any request. A stream counts when it opens.
    """

    id: str
    kind: str
    on: str
    route: str | None = checked_by(text(2_000, "[/*].*", "a path that begins with /, or a pattern that begins with *"))
    method: str | None = checked_by(_method)
    tenant: str | None = checked_by(text(64, ".+", "a tenant's name, at most 64 characters"))
    key: str | None = checked_by(text(64, "key_.*", "the id of a key, which begins with key_, at most 64 characters"))
    query: Mapping[str, str] | None = checked_by(_query)
    paid: str | None = checked_by(choice("only", "never"))
    since: float | None = checked_by(number(0, int(END)))
    until: float | None = checked_by(number(0, int(END)))
    nth: int | None = checked_by(integer(1, 10**9))
    every: int | None = checked_by(integer(1, 10**9))
    probability: float | None = checked_by(number(0, 1))
    count: int | None = checked_by(integer(1, 10**9))
    parameters: Mapping[str, Any]
    seen: int = 0
    fired: int = 0


CONDITIONS = checks_of(FaultRule)
"""Arguments of rules of every kind: which requests a rule applies to, and how often."""
