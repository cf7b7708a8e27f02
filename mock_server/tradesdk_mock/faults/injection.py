"""Applies faults to a response."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.messages import Body, Delay, Disconnect, Response, close_body
from . import body_transforms, responses
from .body_transforms import Steps, TransformedSteps
from .catalog import KINDS
from .rules import Faults, MatchedFaults, MatchedRule, chance

if TYPE_CHECKING:
    from ..state.world import World

_Apply = Callable[[MatchedRule, Response, "World"], bool]
"""Apply a rule to a response. False if there is nothing to apply it to."""


def apply(faults: Faults, matched: MatchedFaults, response: Response) -> tuple[str, ...]:
    """Apply the rules of a request to its response. A rule that finds nothing to change doesn't count as applied.

    Returns:
        the kinds applied, including those of its payment, in the order in which they are applied.
    """
    applied: list[MatchedRule] = []
    unused: list[MatchedRule] = []
    for each in sorted(matched.rules, key=lambda each: _ORDER[each.kind]):
        if each.rule.on in ("payment", "node"):
            # Already applied before the response, or never.
            done = each.kind in matched.payment.applied | matched.node.applied
        else:
            done = _APPLY[each.kind](each, response, faults.world)
        (applied if done else unused).append(each)
    if unused:
        faults.take_back(unused)
    return tuple(each.kind for each in applied)


def _status(match: MatchedRule, response: Response, world: World) -> bool:
    if not match.skips_request:
        # The request was carried out: the rate limit headers stay.
        kept = [each for each in response.headers if each[0] == b"date" or each[0].startswith(b"x-ratelimit-")]
        instead = responses.response(match, world, None)
        instead.encode()
        _replace_body(response, instead.body)
        response.status = instead.status
        response.headers = kept + [each for each in instead.headers if not each[0].startswith(b"x-ratelimit-")]
    _set_headers(response, match)
    return True


def _reset(match: MatchedRule, response: Response, world: World) -> bool:
    if not match.resets:
        return _cut(match, response, Disconnect.RESET)
    _replace_body(response, b"")
    response.status = 0
    response.before.append(Disconnect.RESET)
    return True


def _latency(match: MatchedRule, response: Response, world: World) -> bool:
    jitter = match.get("jitter")
    seconds = match.get("seconds") + (jitter * chance(world.seed, match.rule, "jitter", match.ordinal) if jitter else 0)
    # Before a disconnect: the connection is reset after the delay.
    response.before.insert(0, Delay(seconds))
    return True


def _bad_chunk(match: MatchedRule, response: Response, world: World) -> bool:
    if not _cut(match, response, Disconnect.CHUNK, missing=0):
        return False
    response.headers = [header for header in response.headers if header[0] != b"content-length"]
    return True


def _cut(match: MatchedRule, response: Response, ending: Disconnect, *, missing: int = 1) -> bool:
    """End the body early, with at least `missing` bytes missing. Otherwise the response would be complete."""
    length, after = _length(response), match.get("after")
    if length == 0:
        return False
    if length is not None:
        after = length // 2 if after is None else min(after, length - missing)
    _transform(response, lambda steps: body_transforms.cut(steps, after, ending))
    return True


def _body(match: MatchedRule, response: Response, world: World) -> bool:
    if _length(response) == 0:
        return False
    _replace_body(response, body_transforms.content(match.rule.parameters))
    assert isinstance(response.body, bytes)  # noqa: S101 - put there
    _set_header(response, b"content-length", b"%d" % len(response.body))
    if match.get("content_type") is not None:
        _set_header(response, b"content-type", match.get("content_type").encode("ascii"))
    _set_headers(response, match)
    return True


def _malformed_json(match: MatchedRule, response: Response, world: World) -> bool:
    if not isinstance(response.body, bytes) or not response.body:
        return False
    response.body = response.body[:-1] + b","
    return True


def _content_type(match: MatchedRule, response: Response, world: World) -> bool:
    if _length(response) == 0:
        return False
    _set_header(response, b"content-type", match.get("value").encode("ascii"))
    return True


def _huge_body(match: MatchedRule, response: Response, world: World) -> bool:
    content = response.body
    if not isinstance(content, bytes) or not content:
        return False
    length = max(len(content), int(match.get("mib") * 2**20))
    _set_header(response, b"content-length", b"%d" % length)
    response.body = body_transforms.padded(content, length - len(content))
    return True


def _drip(match: MatchedRule, response: Response, world: World) -> bool:
    if _length(response) == 0:
        return False
    _transform(response, lambda steps: body_transforms.drip(steps, match.get("piece"), match.get("seconds")))
    return True


def _on_stream(stage: Callable[[MatchedRule, Steps, World], Steps]) -> _Apply:
    def apply_to_stream(match: MatchedRule, response: Response, world: World) -> bool:
        if isinstance(response.body, bytes):
            return False  # it was refused
        _transform(response, lambda steps: stage(match, steps, world))
        return True

    return apply_to_stream


def _length(response: Response) -> int | None:
    """The length of the body; None if it is unknown before its end."""
    return len(response.body) if isinstance(response.body, bytes) else response.length()


def _transform(response: Response, stage: Callable[[Steps], Steps]) -> None:
    source: Steps = iter([response.body]) if isinstance(response.body, bytes) else response.body
    response.body = TransformedSteps(source, stage(source))


def _replace_body(response: Response, body: Body) -> None:
    """Replace the body. A stream is closed."""
    close_body(response.body)
    response.body = body


def _set_header(response: Response, name: bytes, value: bytes) -> None:
    response.headers = [header for header in response.headers if header[0] != name] + [(name, value)]


def _set_headers(response: Response, match: MatchedRule) -> None:
    for name, value in (match.get("headers") or {}).items():
        _set_header(response, name.lower().encode("ascii"), value.encode("ascii"))


# In the order in which they are applied, whatever the order of the rules.
_APPLY: dict[str, _Apply] = {
    "status": _status,
    "body": _body,
    "malformed_json": _malformed_json,
    "huge_body": _huge_body,
    "content_type": _content_type,
    **{stage.__name__: _on_stream(stage) for stage in body_transforms.OF_STREAMS},
    "truncate": lambda match, response, _: _cut(match, response, Disconnect.CLOSE),
    "bad_chunk": _bad_chunk,
    "drip": _drip,
    "reset": _reset,
    "latency": _latency,
}
# Faults of payments and of the node come first: they are applied before there is a response.
_EARLY = (kind.name for kind in KINDS.values() if kind.on in ("payment", "node"))
_ORDER = {kind: index for index, kind in enumerate((*_EARLY, *_APPLY))}
