"""Faults at work on one exchange: what becomes of a reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic_core import to_json

from ..core.messages import Break, Delay, Reply
from . import body_transforms, payment_faults
from .body_transforms import Played, Steps
from .faultchecks import bytes_of
from .responses import Hit, answer
from .rules import chance

if TYPE_CHECKING:
    from ..state.world import World

_ENDINGS = {"clean": None, "close": Break.CLOSE, "reset": Break.RESET}


def play(hit: Hit, reply: Reply, world: World) -> bool:
    """Let it happen to the reply. False when this reply has nothing that it could happen to."""
    found = _PLAYS.get(hit.kind)  # what happens to a payment has happened by now, or never will
    return found is not None and found(hit, reply, world)


def _status(hit: Hit, reply: Reply, world: World) -> bool:
    if not hit.skips:
        # It was carried out: what it says of the rate limit stays.
        kept = [header for header in reply.headers if header[0] == b"date" or header[0].startswith(b"x-ratelimit-")]
        instead = answer(hit, world, None)
        _put(reply, b"")
        reply.status = instead.status
        reply.headers = kept + [each for each in instead.headers if not each[0].startswith(b"x-ratelimit-")]
        if instead.body is None:
            reply.body = to_json(instead.data)
            reply.headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply.body))]
    _set_headers(reply, hit)
    return True


def _reset(hit: Hit, reply: Reply, world: World) -> bool:
    if not hit.loses:
        return _cut(hit, reply, Break.RESET)
    _put(reply, b"")
    reply.status = 0
    reply.before.append(Break.RESET)
    return True


def _latency(hit: Hit, reply: Reply, world: World) -> bool:
    jitter = hit.get("jitter")
    seconds = hit.get("seconds") + (jitter * chance(world.seed, hit.rule, "jitter", hit.ordinal) if jitter else 0)
    # In front of a break: a connection is reset late, not before it is late.
    reply.before.insert(0, Delay(seconds))
    return True


def _truncate(hit: Hit, reply: Reply, world: World) -> bool:
    return _cut(hit, reply, Break.CLOSE)


def _bad_chunk(hit: Hit, reply: Reply, world: World) -> bool:
    length, after = _length(reply), hit.get("after")
    if length == 0:
        return False
    if length is not None:
        after = length // 2 if after is None else min(after, length)
    reply.headers = [header for header in reply.headers if header[0] != b"content-length"]
    _change(reply, lambda steps: body_transforms.cut(steps, after, Break.CHUNK))
    return True


def _cut(hit: Hit, reply: Reply, ending: Break) -> bool:
    length, after = _length(reply), hit.get("after")
    if length == 0:
        return False
    if length is not None:
        # One byte is missing at least: with all of them the answer would be whole.
        after = length // 2 if after is None else min(after, length - 1)
    _change(reply, lambda steps: body_transforms.cut(steps, after, ending))
    return True


def _body(hit: Hit, reply: Reply, world: World) -> bool:
    if _length(reply) == 0:
        return False
    _put(reply, bytes_of(hit.rule.parameters))
    assert isinstance(reply.body, bytes)  # noqa: S101 - put there
    _set_header(reply, b"content-length", b"%d" % len(reply.body))
    if hit.get("content_type") is not None:
        _set_header(reply, b"content-type", hit.get("content_type").encode("ascii"))
    _set_headers(reply, hit)
    return True


def _malformed_json(hit: Hit, reply: Reply, world: World) -> bool:
    if not isinstance(reply.body, bytes) or not reply.body:
        return False
    reply.body = reply.body[:-1] + b","
    return True


def _content_type(hit: Hit, reply: Reply, world: World) -> bool:
    if _length(reply) == 0:
        return False
    _set_header(reply, b"content-type", hit.get("value").encode("ascii"))
    return True


def _huge_body(hit: Hit, reply: Reply, world: World) -> bool:
    content = reply.body
    if not isinstance(content, bytes) or not content:
        return False
    length = max(len(content), int(hit.get("mib") * 2**20))
    _set_header(reply, b"content-length", b"%d" % length)
    reply.body = body_transforms.padded(content, length - len(content))
    return True


def _drip(hit: Hit, reply: Reply, world: World) -> bool:
    if _length(reply) == 0:
        return False
    _change(reply, lambda steps: body_transforms.drip(steps, hit.get("piece"), hit.get("seconds")))
    return True


def _on_stream(stage: Callable[[Hit, Steps, World], Steps]) -> Callable[[Hit, Reply, World], bool]:
    def play(hit: Hit, reply: Reply, world: World) -> bool:
        if isinstance(reply.body, bytes):
            return False  # it was refused
        _change(reply, lambda steps: stage(hit, steps, world))
        return True

    return play


def _chosen(hit: Hit, world: World) -> Callable[[int], bool]:
    after: int = hit.get("after")
    each: int = hit.get("each")
    share: float = hit.get("share")
    seed = world.seed

    def chosen(event: int) -> bool:
        if event <= after or (event - after) % each:
            return False
        return share >= 1 or chance(seed, hit.rule, "event", hit.ordinal, event) < share

    return chosen


def _turn(hit: Hit, world: World) -> Callable[[int], float]:
    seed = world.seed
    return lambda turn: chance(seed, hit.rule, "turn", hit.ordinal, turn)


def _length(reply: Reply) -> int | None:
    """How many bytes the body has; None when only its end will tell."""
    if isinstance(reply.body, bytes):
        return len(reply.body)
    return next((int(value) for name, value in reply.headers if name == b"content-length"), None)


def _change(reply: Reply, stage: Callable[[Steps], Steps]) -> None:
    source: Steps = iter([reply.body]) if isinstance(reply.body, bytes) else reply.body
    reply.body = Played(source, stage(source))


def _put(reply: Reply, body: bytes) -> None:
    """Another body in place of the present one, which ends if it is a stream."""
    close = getattr(reply.body, "close", None)
    if close is not None:
        close()
    reply.body = body


def _set_header(reply: Reply, name: bytes, value: bytes) -> None:
    reply.headers = [header for header in reply.headers if header[0] != name] + [(name, value)]


def _set_headers(reply: Reply, hit: Hit) -> None:
    for name, value in (hit.get("headers") or {}).items():
        _set_header(reply, name.lower().encode("ascii"), value.encode("ascii"))


# In this order they are played, whatever the order of the rules.
_PLAYS: dict[str, Callable[[Hit, Reply, World], bool]] = {
    "status": _status,
    "body": _body,
    "malformed_json": _malformed_json,
    "huge_body": _huge_body,
    "content_type": _content_type,
    "skip": _on_stream(lambda hit, steps, world: body_transforms.skip(steps, _chosen(hit, world))),
    "reorder": _on_stream(
        lambda hit, steps, world: body_transforms.reorder(
            steps, hit.get("window"), hit.get("seconds"), world.clock.now, _turn(hit, world)
        )
    ),
    "duplicate": _on_stream(lambda hit, steps, world: body_transforms.duplicate(steps, _chosen(hit, world))),
    "silence": _on_stream(
        lambda hit, steps, world: body_transforms.silence(
            steps, hit.get("after"), hit.get("seconds"), hit.get("comments"), world.clock.now
        )
    ),
    "half_event": _on_stream(
        lambda hit, steps, world: body_transforms.half_event(
            steps, hit.get("after"), hit.get("at") == "character", Break(hit.get("how"))
        )
    ),
    "drop": _on_stream(
        lambda hit, steps, world: body_transforms.drop(steps, hit.get("after"), _ENDINGS[hit.get("how")])
    ),
    "inject": _on_stream(
        lambda hit, steps, world: body_transforms.inject(steps, hit.get("after"), bytes_of(hit.rule.parameters))
    ),
    "garbage": _on_stream(lambda hit, steps, world: body_transforms.garbage(steps, _chosen(hit, world))),
    "split_utf8": _on_stream(lambda hit, steps, world: body_transforms.split_utf8(steps)),
    "line_endings": _on_stream(
        lambda hit, steps, world: body_transforms.line_endings(steps, hit.get("style"), _turn(hit, world))
    ),
    "bom": _on_stream(lambda hit, steps, world: body_transforms.bom(steps)),
    "truncate": _truncate,
    "bad_chunk": _bad_chunk,
    "drip": _drip,
    "reset": _reset,
    "latency": _latency,
}
# What happens to a payment comes before there is an answer.
ORDER = {kind: place for place, kind in enumerate((*payment_faults.NAMES, *_PLAYS))}
