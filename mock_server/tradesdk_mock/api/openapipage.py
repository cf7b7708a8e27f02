"""The description as one page of HTML that needs nothing else: index, endpoints, prices, errors, schemas."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import escape

from . import openapischema as schemas
from .openapischema import Node, markdown, resolved, table

_METHODS = ("get", "post", "patch", "delete")
_MOST = 6
_SCHEMES = {
    "bearer": "an API key",
    "payment": "a payment in <code>PAYMENT-SIGNATURE</code>",
    "paymentV1": "one in <code>X-PAYMENT</code>",
}


def render(document: Node, address: str, style: str) -> str:
    """The page. `address` is where the service is, without a path; `style` goes into the page."""
    info = document["info"]
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}</title><style>{style}</style></head>",
        "<body>",
        _index(document),
        "<main>",
        f'<h1 id="top">{escape(info["title"])}</h1>',
        f'<p class="facts">{escape(info["summary"])} Version {escape(info["version"])}, at'
        f' <code>{escape(address)}</code>; as <a href="/openapi.json">OpenAPI in JSON</a>.</p>',
        markdown(info["description"]),
        *_security(document),
    ]
    for tag in document["tags"]:
        parts.append(f'<h2 id="{_slug("tag", tag["name"])}">{escape(tag["name"])}</h2>')
        parts.append(markdown(tag["description"]))
        for path, method, operation in operations(document):
            if operation["tags"] == [tag["name"]]:
                parts += _operation(document, path, method, operation, address)
    parts += [
        *_prices(document),
        *_errors(document),
        *_headers(document),
        *_schemas(document),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def operations(document: Node) -> Iterator[tuple[str, str, Node]]:
    """Path, method in lower case and what stands there, in the order of the document."""
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield path, method, item[method]


def _slug(kind: str, name: str) -> str:
    return f"{kind}-{re.sub(r'[^A-Za-z0-9]+', '-', name)}"


def _label(method: str) -> str:
    return f'<span class="method {method}">{method.upper()}</span>'


def _index(document: Node) -> str:
    parts = ["<nav>", '<p><a href="#top"><strong>Overview</strong></a></p><ul>']
    parts += [
        f'<li><a href="#{target}">{text}</a></li>'
        for target, text in (
            ("security", "Keys and payments"),
            ("prices", "Prices"),
            ("errors", "Errors"),
            ("headers", "Headers"),
            ("schemas", "Schemas"),
        )
    ]
    parts.append("</ul>")
    for tag in document["tags"]:
        parts.append(f'<h2><a href="#{_slug("tag", tag["name"])}">{escape(tag["name"])}</a></h2><ul>')
        parts += [
            f'<li><a href="#{_slug("op", each["operationId"])}">{_label(method)}{escape(path)}</a></li>'
            for path, method, each in operations(document)
            if each["tags"] == [tag["name"]]
        ]
        parts.append("</ul>")
    return "\n".join([*parts, "</nav>"])


def _security(document: Node) -> Iterator[str]:
    yield '<h2 id="security">Keys and payments</h2>'
    rows = []
    for scheme in document["components"]["securitySchemes"].values():
        header = "Authorization: Bearer <API_KEY>" if scheme["type"] == "http" else f"{scheme['name']}: <payment>"
        rows.append((f"<code>{escape(header)}</code>", markdown(scheme["description"])))
    yield table(("Header", "What it is"), rows)


def _operation(document: Node, path: str, method: str, operation: Node, address: str) -> Iterator[str]:
    yield f'<h3 id="{_slug("op", operation["operationId"])}">{escape(operation["summary"])}</h3>'
    yield f"<p>{_label(method)}<code>{escape(path)}</code></p>"
    yield f'<p class="facts">{_facts(document, operation)}</p>'
    if "description" in operation:
        yield markdown(operation["description"])
    parameters = _parameters(document, path, operation)
    if parameters:
        yield "<h4>Parameters</h4>"
        yield table(
            ("Name", "In", "Type", ""),
            [
                (
                    schemas.name(each["name"], each.get("required", False)),
                    each["in"],
                    schemas.kind(document, each["schema"]),
                    markdown(each.get("description", "")),
                )
                for each in parameters
            ],
        )
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        yield f"<h4>Body</h4><p>{schemas.kind(document, body['schema'])}</p>"
        yield schemas.fields(document, resolved(document, body["schema"]))
    yield "<h4>For example</h4>"
    yield f"<pre><code>{escape(_curl(path, method, parameters, operation, body, address))}</code></pre>"
    yield "<h4>Answers</h4>"
    yield table(("Status", "What it means", "Body", "Headers"), [*_answers(document, operation)])
    for status, given in operation["responses"].items():
        if status < "300":
            yield from _example(status, resolved(document, given))


def _facts(document: Node, operation: Node) -> str:
    needs = operation.get("security", document["security"])
    said = "Needs " + " or ".join(_SCHEMES[scheme] for each in needs for scheme in each) if needs else "Needs nothing"
    price = operation.get("x-price")
    return f"{said}. Costs {_cost(price)}." if price and price["usd"] != "0" else f"{said}."


def _cost(price: Node) -> str:
    if price["usd"] == "0":
        return "nothing"
    return f"{escape(price['usd'])} USD a {escape(price['per'])}"


def _parameters(document: Node, path: str, operation: Node) -> list[Node]:
    given = [*document["paths"][path].get("parameters", ()), *operation.get("parameters", ())]
    return [resolved(document, each) for each in given]


def _curl(path: str, method: str, parameters: list[Node], operation: Node, body: Node | None, address: str) -> str:
    query = []
    for each in parameters:
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", str(each["example"]))
        elif each.get("required"):
            query.append(f"{each['name']}=8453")
    words = (
        ["curl", "-N"]
        if any("text/event-stream" in each.get("content", {}) for each in operation["responses"].values())
        else ["curl"]
    )
    if method in ("patch", "delete"):
        words += ["-X", method.upper()]
    if "security" not in operation:
        words += ["-H", shlex.quote("Authorization: Bearer mock_full_me")]
    elif operation["security"]:
        words += ["-H", shlex.quote("PAYMENT-SIGNATURE: <payment>")]
    if body is not None:
        words += ["-H", shlex.quote("Content-Type: application/json"), "-d", shlex.quote(json.dumps(body["example"]))]
    words.append(shlex.quote(address + path + ("?" + "&".join(query) if query else "")))
    return " ".join(words)


def _answers(document: Node, operation: Node) -> Iterator[tuple[str, ...]]:
    for status, given in operation["responses"].items():
        response = resolved(document, given)
        bodies = [schemas.kind(document, each["schema"]) for each in response.get("content", {}).values()]
        yield f"<code>{status}</code>", markdown(response["description"]), ", ".join(bodies), _sent(response)


def _sent(response: Node) -> str:
    """The headers of an answer; the three of the rate limit as one."""
    names = dict.fromkeys(
        "X-RateLimit-*" if each.startswith("X-RateLimit-") else each for each in response.get("headers", {})
    )
    return "<br>".join(f'<a href="#headers">{escape(each)}</a>' for each in names)


def _example(status: str, response: Node) -> Iterator[str]:
    for media, content in response.get("content", {}).items():
        if "examples" in content:
            text = "\n\n".join(f"data: {each['value']['data']}" for each in content["examples"].values())
        else:
            text = json.dumps(content["example"], indent=2)
        yield f"<h4>{status}, {escape(media)}</h4>"
        yield f"<pre><code>{escape(text.rstrip())}</code></pre>"


def _prices(document: Node) -> Iterator[str]:
    yield '<h2 id="prices">Prices</h2>'
    yield "<p>With scheme <code>exact</code> on network <code>eip155:8453</code>, in USDC.</p>"
    rows = [
        (_link(each, path, method), _cost(each["x-price"]))
        for path, method, each in operations(document)
        if "x-price" in each
    ]
    yield table(("Endpoint", "Price"), rows)


def _errors(document: Node) -> Iterator[str]:
    """Every failure once, with the endpoints that it belongs to."""
    yield '<h2 id="errors">Errors</h2>'
    found: dict[tuple[str, str, str], list[str]] = {}
    for path, method, operation in operations(document):
        for status, given in operation["responses"].items():
            if status >= "400":
                response = resolved(document, given)
                key = status, schemas.codes(document, response), response["description"]
                found.setdefault(key, []).append(_link(operation, path, method))
    rows = []
    for (status, codes, text), links in sorted(found.items(), key=lambda item: item[0][0]):
        where = "<br>".join(links) if len(links) <= _MOST else f"{len(links)} endpoints"
        rows.append((f"<code>{status}</code>", codes, markdown(text), where))
    yield table(("Status", "Code", "What it means", "Where"), rows)


def _link(operation: Node, path: str, method: str) -> str:
    return f'<a href="#{_slug("op", operation["operationId"])}">{_label(method)}{escape(path)}</a>'


def _headers(document: Node) -> Iterator[str]:
    yield '<h2 id="headers">Headers</h2>'
    rows = [
        (f"<code>{escape(header)}</code>", schemas.kind(document, each["schema"]), markdown(each["description"]))
        for header, each in document["components"]["headers"].items()
    ]
    yield table(("Header of an answer", "Type", "What it says"), rows)


def _schemas(document: Node) -> Iterator[str]:
    yield '<h2 id="schemas">Schemas</h2>'
    for name, schema in document["components"]["schemas"].items():
        yield f'<h3 id="{schemas.anchor(name)}">{escape(name)}</h3>'
        if "description" in schema:
            yield markdown(schema["description"])
        yield schemas.fields(document, schema) or f"<p>{schemas.kind(document, schema)}</p>"
