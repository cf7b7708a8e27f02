"""Parts of the page: descriptions, tables, and schemas as people read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

Node = dict[str, Any]
_SPAN = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\((#[\w-]+)\)")


def resolved(document: Node, node: Node) -> Node:
    """What a reference into the document leads to; what stands beside it wins. Anything else as it is."""
    while "$ref" in node:
        beside = {name: value for name, value in node.items() if name != "$ref"}
        found: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = {**found, **beside}
    return node


def markdown(text: str) -> str:
    """Paragraphs, lists, code, bold and links within the page: what our descriptions are written with."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()) if text else ():
        if block.startswith("- "):
            items = re.split(r"\n- ", block[2:])
            blocks.append("<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>")
        else:
            blocks.append(f"<p>{_inline(block)}</p>")
    return "\n".join(blocks)


def _inline(text: str) -> str:
    found, at = [], 0
    for match in _SPAN.finditer(text):
        found.append(escape(text[at : match.start()]))
        code, bold, label, target = match.groups()
        if code is not None:
            found.append(f"<code>{escape(code)}</code>")
        elif bold is not None:
            found.append(f"<strong>{escape(bold)}</strong>")
        else:
            found.append(f'<a href="{target}">{escape(label)}</a>')
        at = match.end()
    return "".join([*found, escape(text[at:])])


def anchor(schema: str) -> str:
    """The id of a schema's place on the page."""
    return f"schema-{schema}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    first = "".join(f"<th>{cell}</th>" for cell in head)
    rest = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{first}</tr></thead><tbody>\n{rest}\n</tbody></table></div>'


def name(text: str, required: bool) -> str:
    """A field's or parameter's name as HTML."""
    return f"<code>{escape(text)}</code>" + (' <span class="required">required</span>' if required else "")


def kind(document: Node, schema: Node) -> str:
    """A type in one line, with links to the schemas that have a name."""
    beside = _bounds({key: value for key, value in schema.items() if key != "$ref"})
    if "$ref" in schema:
        target = schema["$ref"].rpartition("/")[2]
        return " ".join([f'<a href="#{anchor(target)}">{escape(target)}</a>', *beside])
    if "allOf" in schema and "properties" not in schema:
        base, *narrowed = schema["allOf"]
        return ", ".join([kind(document, base), *(each for one in narrowed for each in _narrowed(document, one))])
    for name_ in ("oneOf", "anyOf"):
        if name_ in schema:
            return " or ".join(kind(document, each) for each in schema[name_])
    if "contentSchema" in schema:
        how = "base64 of " if "contentEncoding" in schema else "JSON of "
        return how + kind(document, schema["contentSchema"])
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        return " ".join([" | ".join(map(_value, schema["enum"])), *beside])
    if "items" in schema:
        return " ".join(["array of " + kind(document, schema["items"]), *beside])
    types = schema.get("type", "any")
    return " ".join([" or ".join(types) if isinstance(types, list) else str(types), *beside])


def fields(document: Node, schema: Node) -> str:
    """The fields of an object as a table, those of objects within it included; empty when it has none."""
    rows = [*_rows(document, schema, "")]
    return table(("Field", "Type", ""), rows) if rows else ""


def codes(document: Node, response: Node) -> str:
    """The codes that an error of the account API may have there."""
    for media in response.get("content", {}).values():
        for each in media["schema"].get("allOf", ()):
            code = each.get("properties", {}).get("error", {}).get("properties", {}).get("code")
            if code is not None:
                return kind(document, code)
    return ""


def _narrowed(document: Node, schema: Node, prefix: str = "") -> Iterator[str]:
    """What a schema says about fields that another one has."""
    for field, sub in schema["properties"].items():
        if "properties" in sub:
            yield from _narrowed(document, sub, f"{prefix}{field}.")
        else:
            yield f"<code>{escape(prefix + field)}</code>: {kind(document, sub)}"


def _rows(document: Node, schema: Node, prefix: str) -> Iterator[tuple[str, str, str]]:
    for field, sub in schema.get("properties", {}).items():
        inner = sub.get("items", sub)
        nested = "$ref" not in inner and "properties" in inner
        yield (
            name(prefix + field, field in schema.get("required", ())),
            ("array of objects" if inner is not sub else "object") + _after(sub) if nested else kind(document, sub),
            markdown(sub.get("description", "")),
        )
        if nested:
            yield from _rows(document, inner, f"{prefix}{field}[]." if inner is not sub else f"{prefix}{field}.")


def _after(schema: Node) -> str:
    return "".join(f" {each}" for each in _bounds(schema))


def _value(value: object) -> str:
    return f"<code>{escape(value if isinstance(value, str) else json.dumps(value))}</code>"


def _bounds(schema: Node) -> list[str]:
    """Limits and the default, in words."""
    found = []
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and abs(high) > 10**15:  # as far as numbers go, which nobody wants to read
        low = high = None
    if "exclusiveMinimum" in schema:
        found.append(f"above {schema['exclusiveMinimum']}, at most {high}")
    elif low is not None and high is not None:
        found.append(f"{low} to {high}")
    elif low is not None:
        found.append(f"at least {low}")
    if "minItems" in schema:
        found.append(f"{schema['minItems']} to {schema['maxItems']} items")
    elif "maxItems" in schema:
        found.append(f"at most {schema['maxItems']} items")
    if "maxProperties" in schema:
        found.append("without fields")
    if "format" in schema and schema["format"] != "int64":
        found.append(escape(schema["format"]))
    if "pattern" in schema and schema["pattern"] != r"\S":
        found.append(_value(schema["pattern"]))
    said = [f'<span class="note">{"; ".join(found)}</span>'] if found else []
    if "default" in schema:
        said.append(f'<span class="note">default {_value(schema["default"])}</span>')
    return said
