"""Page cursors: opaque, signed, and good only for the caller, list and filters that they were made for."""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
from collections.abc import Sequence

from ..core.errors import invalid
from ..core.seeding import digest

# The last row's sort time, its seq, and when the cursor was made.
_FORM = struct.Struct(">qqq")
_TAG = 12


def _tag(seed: int, payload: bytes, scope: Sequence[object]) -> bytes:
    return hmac.digest(digest(seed, "cursor", *scope), payload, "sha256")[:_TAG]


def encode(seed: int, scope: Sequence[object], time: int, seq: int, now: int) -> str:
    """A cursor that points behind the row (time, seq). `scope` is what it is bound to: tenant, list, order, filters."""
    payload = _FORM.pack(time, seq, now)
    return base64.urlsafe_b64encode(payload + _tag(seed, payload, scope)).decode("ascii")


def decode(seed: int, scope: Sequence[object], text: str, now: int, ttl: int) -> tuple[int, int]:
    """The row that a cursor points behind; 400 for one that is damaged, foreign or, with a `ttl`, too old."""
    try:
        raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise invalid("cursor: not a cursor of this service") from None
    payload, tag = raw[: _FORM.size], raw[_FORM.size :]
    # The spelling is checked too: base64 has several for the same bytes.
    same_spelling = base64.urlsafe_b64encode(raw).decode("ascii") == text
    if len(payload) != _FORM.size or not same_spelling or not hmac.compare_digest(tag, _tag(seed, payload, scope)):
        raise invalid("cursor: not a cursor for this list with these filters")
    time, seq, made = _FORM.unpack(payload)
    if ttl and now >= made + ttl:
        raise invalid("cursor: expired")
    return time, seq
