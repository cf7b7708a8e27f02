"""What the keys of a terminal send, and reading it one by one."""

from __future__ import annotations

_SEQUENCES = {
    b"[A": "up",
    b"[B": "down",
    b"[C": "right",
    b"[D": "left",
    b"OA": "up",
    b"OB": "down",
    b"OC": "right",
    b"OD": "left",
    b"[5~": "pageup",
    b"[6~": "pagedown",
    b"[H": "home",
    b"[F": "end",
    b"OH": "home",
    b"OF": "end",
    b"[1~": "home",
    b"[4~": "end",
    b"[Z": "backtab",
}


def parse_keys(data: bytes) -> tuple[list[str], bytes]:
    """The keys in what a terminal sent, and what is left: the beginning of a sequence whose end has not come yet.

    Letters are themselves; others are `up`, `pagedown`, `tab`, `ctrl-c` and so on. Unknown sequences are left out.
    """
    keys: list[str] = []
    while data:
        if data[:1] == b"\x1b":
            length = _length(data)
            if length is None:
                return keys, data
            name = _SEQUENCES.get(data[1:length])
            if name is not None:
                keys.append(name)
            data = data[length:]
            continue
        code = data[0]
        if code == 9:
            keys.append("tab")
        elif code in (3, 4):
            keys.append("ctrl-c")
        elif 32 <= code < 127:
            keys.append(chr(code))
        data = data[1:]
    return keys, b""


def _length(data: bytes) -> int | None:
    """How long the sequence at the beginning of `data` is; None when its end is missing."""
    if len(data) == 1:
        return None
    if data[1:2] == b"O":
        return 3 if len(data) >= 3 else None
    if data[1:2] != b"[":
        return 1  # the key Esc, before another key
    for place in range(2, len(data)):
        if 0x40 <= data[place] <= 0x7E:
            return place + 1
    return None if len(data) < 32 else len(data)
