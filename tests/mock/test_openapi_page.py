"""The page that the mock's description is read on: it needs nothing else, and everything is on it."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser

import httpx
import pytest

from tradesdk_mock import MockService
from tradesdk_mock.api.openapi import document

from .._openapi import described, response
from ._support import in_process


class Page(HTMLParser):
    """A page, and whether its tags are in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.others: list[tuple[str, str]] = []
        self.code: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            elif name == "href":
                self.links.append(str(value))
            else:
                self.others.append((name, str(value)))
        if tag not in ("meta", "br"):
            self._open.append(tag)
        if tag == "pre":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data
        if "pre" in self._open:
            self.code[-1] += data


@pytest.fixture(scope="module")
def docs() -> Iterator[str]:
    with MockService(seed=7) as mock, in_process(mock, None) as http:
        yield http.get("/docs").text


@pytest.fixture(scope="module")
def page(docs: str) -> Page:
    return Page(docs)


def test_the_page_needs_nothing_else(docs: str, page: Page) -> None:
    assert page.names & {"script", "link", "img", "iframe", "form", "object", "base"} == set()
    assert {name for name, _ in page.others} == {"lang", "charset", "name", "content", "class"}
    style = docs.partition("<style>")[2].partition("</style>")[0]
    assert "prefers-color-scheme: dark" in style
    assert re.findall(r"url\(|@import|//", style) == []
    with MockService(seed=7) as mock, in_process(mock, None) as http:
        policy = http.get("/docs").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_every_link_leads_somewhere(page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))
    assert {link for link in page.links if not link.startswith("#")} == {"/openapi.json"}
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_everything_is_on_the_page(page: Page) -> None:
    linked = {link[1:] for link in page.links}
    for _, path, operation in described():
        assert f"op-{operation['operationId']}" in linked
        assert path in page.text
        assert operation["summary"] in page.text
        price = operation.get("x-price", {"usd": "0"})
        assert price["usd"] == "0" or f"Costs {price['usd']} USD a {price['per']}." in page.text
    assert {f"schema-{name}" for name in document()["components"]["schemas"]} <= set(page.ids)
    for part in ("security", "prices", "errors", "headers", "schemas"):
        assert part in linked
    for word in ("default 0.75", "1 to 100", "number or null", "WAITING FOR SIGNAL", "array of SupportedToken", "429"):
        assert word in page.text
    assert re.findall(r"\*\*|\]\(#|`", page.text) == []


def test_what_the_page_says_to_type_can_be_typed(page: Page) -> None:
    """Every line for a terminal, asked as it stands there; what it names doesn't exist, and nobody has paid."""
    lines = [each for each in page.code if each.startswith("curl ")]
    assert len(lines) == len([*described()])
    answered = set()
    with MockService(seed=7, first_within=0) as mock, in_process(mock, None) as http:
        for line in lines:
            words = shlex.split(line)
            url = words.pop()
            headers = dict(words[at + 1].split(": ") for at, word in enumerate(words) if word == "-H")
            body = next((words[at + 1] for at, word in enumerate(words) if word == "-d"), None)
            method = words[words.index("-X") + 1] if "-X" in words else "GET" if body is None else "POST"
            with http.stream(method, url, headers=headers, content=body) as answer:
                path = next(
                    each
                    for _, each, _ in described()
                    if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each), httpx.URL(url).path)
                )
                response(method, path, answer.status_code)
                answered.add(answer.status_code)
    assert answered == {200, 201, 402, 404}


def test_the_page_escapes_what_it_shows(docs: str) -> None:
    assert html.escape("Bearer <API_KEY>") in docs
    assert "<API_KEY>" not in docs
