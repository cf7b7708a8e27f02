"""Query strings and JSON bodies: bad input is an error response, never a crash. Models are in `bodies`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

from pydantic_core import from_json

from ..core.errors import invalid, refused, unacceptable
from ..core.gap_options import GapOptions
from ..core.seeding import EVM_ADDRESS

MAX_BODY = 1024 * 1024
CHAINS = (8453, 56)
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)


def json_body(headers: list[tuple[bytes, bytes]], content: bytes | None) -> dict[str, Any]:
    """The JSON object in a request's body; `content` is None when the body was too long."""
    kinds = [value for name, value in headers if name == b"content-type"]
    kind, _, parameters = (kinds[0] if len(kinds) == 1 else b"").partition(b";")
    if kind.strip().lower() != b"application/json":
        raise invalid("The body must be JSON with Content-Type: application/json.")
    if parameters.strip().lower().replace(b'"', b"") not in (b"", b"charset=utf-8"):
        raise invalid("JSON is sent in UTF-8, without other parameters in Content-Type.")
    if any(name == b"content-encoding" and value.lower() != b"identity" for name, value in headers):
        raise invalid("Compressed bodies are not accepted.")
    if content is None:
        raise invalid("The body is longer than 1 MiB.")
    try:
        found = from_json(content, allow_inf_nan=False)
    except ValueError:
        # The parser's message may quote the body.
        raise invalid("The body is not valid JSON.") from None
    if not isinstance(found, dict):
        raise invalid("The body must be a JSON object.")
    return found


class Query:
    """The query string. Malformed values are 400; values out of range 422, or as the gap option says."""

    def __init__(self, raw: bytes, gaps: GapOptions) -> None:
        self._gaps = gaps
        self._found: dict[str, str] = {}
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError:
            raise invalid("The query string can't be read.") from None
        for name, value in pairs:
            if name in self._found:
                raise invalid(f"{name[:80]}: given twice")
            self._found[name] = value

    def only(self, *names: str) -> None:
        """400 for any other name. Without this, unknown names are ignored."""
        for name in self._found:
            if name not in names:
                raise invalid(f"{name[:80]}: not a parameter of this request; it has: {', '.join(names)}")

    def text(self, name: str) -> str | None:
        value = self._found.get(name)
        if value == "":
            raise invalid(f"{name}: empty")
        return value

    def integer(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not _INTEGER.fullmatch(value):
            raise invalid(f"{name}: not an integer")
        return int(value)

    def limit(self) -> int:
        value = self.integer("limit")
        if value is None:
            return 20
        if not 1 <= value <= 100:
            raise refused(self._gaps.range_status, "limit", "must be from 1 to 100")
        return value

    def chain(self, name: str, *, required: bool) -> int | None:
        value = self.integer(name)
        if value is None:
            if required:
                raise invalid(f"{name}: required")
            return None
        check_chain(value, name, self._gaps)
        return value

    def one_of(self, name: str, values: tuple[str, ...]) -> str | None:
        value = self.text(name)
        if value is not None and value not in values:
            raise refused(self._gaps.range_status, name, f"must be one of {', '.join(values)}")
        return value

    def number(self, name: str) -> float | None:
        value = self.text(name)
        if value is not None and not _DECIMAL.fullmatch(value):
            raise invalid(f"{name}: not a number")
        return None if value is None else float(value)

    def confidence(self) -> float | None:
        value = self.number("min_confidence")
        return None if value is None else check_confidence(value)

    def token_address(self) -> str | None:
        value = self.text("token_address")
        if value is not None and not EVM_ADDRESS.fullmatch(value):
            raise unacceptable("token_address", "not an EVM address")
        return value


def check_chain(value: int, field: str, gaps: GapOptions) -> int:
    if value not in CHAINS:
        raise refused(gaps.range_status, field, "must be 8453 or 56")
    return value


def check_confidence(value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise unacceptable("min_confidence", "must be from 0.0 to 1.0")
    return value


def check_text(value: str, field: str) -> str:
    if not value.strip():
        raise unacceptable(field, "must not be blank")
    return value


def check_max_positions(value: int, gaps: GapOptions) -> int:
    if gaps.bounds == "checked" and not 1 <= value <= 100:
        raise unacceptable("max_positions", "must be from 1 to 100")
    return value


def check_risk(given: dict[str, float], gaps: GapOptions) -> dict[str, float]:
    if gaps.bounds == "checked":
        for name, value in given.items():
            if not 0 < value <= 100:
                raise unacceptable(f"risk.{name}", "must be above 0 and at most 100")
    return given
