"""The mock's OpenAPI description, as tests read it: what it says about an answer, and whether an answer is that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import httpx
from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

from tradesdk_mock import MockService

Node = dict[str, Any]


@cache
def document() -> Node:
    """What GET /openapi.json answers, without the address of the server."""
    with MockService() as mock, httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
        found: Node = http.get("/openapi.json").raise_for_status().json()
    del found["servers"]
    return found


def resolved(node: Node) -> Node:
    """What a reference leads to."""
    while "$ref" in node:
        found: Any = document()
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def described() -> Iterator[tuple[str, str, Node]]:
    """Method, path and what is said about them."""
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield method.upper(), path, operation


def response(method: str, path: str, status: int) -> Node:
    """What is said about an answer."""
    responses = document()["paths"][path][method.lower()]["responses"]
    assert str(status) in responses, f"{method} {path} isn't said to answer {status}"
    return resolved(responses[str(status)])


@cache
def _validator(schema: str) -> Any:
    whole = {**json.loads(schema), "components": document()["components"]}
    return Draft202012Validator(whole, format_checker=FormatChecker())


def problems(schema: str | Node, value: Any) -> list[str]:
    """What is wrong with a value, by a schema or by one that has this name."""
    found = {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema
    # Made once each: a new one walks through the whole description.
    validator = _validator(json.dumps(found))
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(value)]


def header_problems(said: Node, headers: Mapping[str, str]) -> list[str]:
    """What is wrong with the headers of an answer. Those that aren't mentioned don't matter."""
    found = []
    for name, node in said.get("headers", {}).items():
        header, value = resolved(node), headers.get(name)
        if value is None:
            found += [f"{name} is missing"] if header.get("required") else []
            continue
        kind = resolved(header["schema"]).get("type")
        found += [f"{name}{each}" for each in problems(header["schema"], int(value) if kind == "integer" else value)]
    return found
