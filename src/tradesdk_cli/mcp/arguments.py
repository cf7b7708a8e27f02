"""Arguments of tools: checked, and converted to times, purchases and changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES, CHAINS
from tradesdk_cli.mcp.answers import opened, own
from tradesdk_cli.mcp.catalog import FEW_ROWS, Tool
from tradesdk_cli.output.formats import flatten
from tradesdk_cli.text import to_json, visible

if TYPE_CHECKING:
    from tradesdk_cli.pay.calls import Call

_INTEGER = re.compile(r"-?[0-9]{1,9}")
_LARGEST = 20_000
"""Maximum characters of all arguments."""


def checked(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a tool, checked by its schema; a fault names the first invalid one."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has none

    given: dict[str, Any] = _usual(arguments, tool.input_schema)
    try:
        size = len(to_json(given))
    except ValueError:
        raise own("invalid_arguments", "every number must be finite") from None
    if size > _LARGEST:
        raise own("invalid_arguments", f"the arguments are longer than {_LARGEST:,} characters")
    validator = Draft202012Validator(tool.input_schema)
    for error in validator.iter_errors(given):
        where = ".".join(str(part) for part in error.absolute_path) or "arguments"
        raise own("invalid_arguments", visible(f"{where}: {_reason(error)}", 300))
    for name, value in flatten(given).items():
        texts = value if isinstance(value, list) else [value]
        if not all(one.isprintable() for one in texts if isinstance(one, str)):
            raise own("invalid_arguments", f"{name}: control characters are not allowed")
    return given


def _usual(value: Any, schema: Mapping[str, Any]) -> Any:
    """The arguments without nulls, and with other spellings of integers ("5", 2.0) and chains (8453) converted."""
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        return {name: _usual(inner, known.get(name, {})) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_usual(inner, schema.get("items", {})) for inner in value]
    if schema.get("enum") == list(CHAINS) and not isinstance(value, bool):
        return {str(number): name for number, name in CHAIN_NAMES.items()}.get(str(value), str(value))
    if schema.get("type") == "integer" and isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _reason(error: Any) -> str:
    """The error without the value, which may be huge."""
    if error.validator == "required":
        return str(error.message)
    if error.validator == "additionalProperties":
        known, needed = error.schema.get("properties", {}), error.schema.get("required", ())
        missing = [name for name in needed if name not in error.instance]
        more = f", and needs {', '.join(missing)}" if missing else ""
        unknown = ", ".join(name for name in error.instance if name not in known)
        return f"unknown: {unknown}; takes {', '.join(known)}{more}"
    wanted = error.validator_value
    return f"must fit {error.validator} {', '.join(wanted) if error.validator == 'enum' else wanted}"


def moment(name: str, given: Mapping[str, Any]) -> float | None:
    """A time as Unix seconds."""
    text = given.get(name)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise own("invalid_arguments", f"{name} must be a time with its zone, such as 2026-11-22T10:00:00Z")
    return found.timestamp()


def walk_of(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"limit": given.get("limit", FEW_ROWS), "cursor": opened(given.get("cursor"))}


_ARGUMENTS = ("limit", "since", "until", "signal_type", "sort_by")
"""Arguments of a purchase besides its tokens."""


def call_of(given: Mapping[str, Any]) -> Call:
    from tradesdk_cli.pay.calls import Call

    data, tokens = given["data"], given.get("tokens", ())
    takes = Call(data).takes
    for name in _ARGUMENTS:
        if name in given and name not in takes:
            raise own("invalid_arguments", f"{name} is not an argument of {data}")
    if bool(tokens) != ("tokens" in takes):
        raise own("invalid_arguments", f"{data} takes no tokens" if tokens else f"{data} needs tokens")
    if "sort_by" in takes and "sort_by" not in given:
        raise own("invalid_arguments", f"{data} needs sort_by")
    if any("," in token or ":" in token for token in tokens):
        raise own("invalid_arguments", "tokens: one symbol or address each")
    read = {name: given.get(name) for name in _ARGUMENTS} | {name: moment(name, given) for name in ("since", "until")}
    return Call(data, tokens, {name: value for name, value in read.items() if name in takes})


def body_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a change."""
    body = {name: given[name] for name in given if name not in ("operation", "id") and given[name] != {}}
    if "chain" in body:
        body["chain_id"] = CHAINS[body.pop("chain")]
    return body
