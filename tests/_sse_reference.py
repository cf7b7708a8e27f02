"""The HTML standard's event stream, read slowly and to the letter: bytes to text, text to lines, lines to fields.

Nothing here is shared with the SDK, and no codec of Python's is used: the decoder for UTF-8 is the Encoding standard's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

REPLACEMENT = "\ufffd"


@dataclass
class Reading:
    """What a stream comes to, up to its last byte.

    Attributes:
        events: data, type ("" when none was given) and last event id of each.
        last_event_id: that of the event source.
        retry: the reconnection time in milliseconds; None when it was not set.
        comments: how many lines began with a colon.
        lines: every line that ended, with its end taken off.
    """

    events: list[tuple[str, str, str]] = field(default_factory=list)
    last_event_id: str = ""
    retry: int | None = None
    comments: int = 0
    lines: list[str] = field(default_factory=list)


def read(stream: bytes) -> Reading:
    """Interpret a whole stream. What stands after the last end of a line is no line."""
    text = utf8_decode(stream)
    reading = Reading(lines=lines_of(text))
    data = event_type = last_id = ""
    for line in reading.lines:
        if line == "":
            reading.last_event_id = last_id
            if data == "":
                event_type = ""
                continue
            if data[-1] == "\n":
                data = data[:-1]
            reading.events.append((data, event_type, last_id))
            data = event_type = ""
        elif line[0] == ":":
            reading.comments += 1
        else:
            if ":" in line:
                colon = line.index(":")
                name, value = line[:colon], line[colon + 1 :]
                if value != "" and value[0] == " ":
                    value = value[1:]
            else:
                name, value = line, ""
            if name == "event":
                event_type = value
            elif name == "data":
                data = data + value + "\n"
            elif name == "id":
                if "\0" not in value:
                    last_id = value
            elif name == "retry" and value != "" and all(digit in "0123456789" for digit in value):
                reading.retry = int(value)
    return reading


def lines_of(text: str) -> list[str]:
    """Everything before a CR LF pair, an LF that follows no CR, or a CR that no LF follows."""
    lines: list[str] = []
    line = ""
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\r":
            if position < len(text) and text[position] == "\n":
                position += 1
        elif char != "\n":
            line += char
            continue
        lines.append(line)
        line = ""
    return lines


def utf8_decode(stream: bytes) -> str:
    """With one byte order mark taken off, and a replacement character for every error."""
    if stream[:3] == b"\xef\xbb\xbf":
        stream = stream[3:]
    text = ""
    code_point = seen = needed = 0
    lower, upper = 0x80, 0xBF
    position = 0
    while position < len(stream):
        byte = stream[position]
        position += 1
        if needed == 0:
            if byte <= 0x7F:
                text += chr(byte)
            elif 0xC2 <= byte <= 0xDF:
                needed, code_point = 1, byte & 0x1F
            elif 0xE0 <= byte <= 0xEF:
                if byte == 0xE0:
                    lower = 0xA0
                if byte == 0xED:
                    upper = 0x9F
                needed, code_point = 2, byte & 0xF
            elif 0xF0 <= byte <= 0xF4:
                if byte == 0xF0:
                    lower = 0x90
                if byte == 0xF4:
                    upper = 0x8F
                needed, code_point = 3, byte & 0x7
            else:
                text += REPLACEMENT
            continue
        if not lower <= byte <= upper:
            code_point = needed = seen = 0
            lower, upper = 0x80, 0xBF
            position -= 1  # it is read again, as the beginning of something
            text += REPLACEMENT
            continue
        lower, upper = 0x80, 0xBF
        code_point = (code_point << 6) | (byte & 0x3F)
        seen += 1
        if seen == needed:
            text += chr(code_point)
            code_point = needed = seen = 0
    if needed != 0:
        text += REPLACEMENT
    return text
