"""The fault `body`: another body with the status of the answer, over real sockets and in process."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator

import httpx
import pytest

from tradesdk_mock.control.service import MockService

from ._faulty import ASK, CARRIERS, STREAM, carried, connect, ids

PATH = "/v1/account"


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


@pytest.mark.parametrize("text", ["", "[]", '{"price_usd":NaN}', "zwölf\r\n", "a" * 300_000])
def test_body(mock: MockService, http: httpx.Client, text: str) -> None:
    mock.add_fault("body", text=text, count=1)
    answer = http.get(PATH)
    assert answer.status_code == 200
    assert answer.content == text.encode()
    assert answer.headers.get_list("content-length") == [str(len(text.encode()))]
    assert answer.headers.get_list("content-type") == ["application/json"]
    assert "x-ratelimit-limit" in answer.headers
    assert mock.journal()[-1].faults == ("body",)
    assert http.get(PATH).json()["id"]


def test_bytes_of_any_sort_with_a_type(mock: MockService, http: httpx.Client) -> None:
    content = bytes(range(256))
    mock.add_fault("body", base64=base64.b64encode(content).decode(), content_type="image/png")
    answer = http.get(PATH)
    assert (answer.content, answer.headers["content-type"]) == (content, "image/png")


def test_gzip_that_is_real_and_one_that_is_cut(mock: MockService, http: httpx.Client) -> None:
    packed = gzip.compress(b'{"a":1}', mtime=0)
    headers = {"Content-Encoding": "gzip"}
    mock.add_fault("body", base64=base64.b64encode(packed).decode(), headers=headers, count=1)
    mock.add_fault("body", text="no gzip", headers=headers)
    answer = http.get(PATH)
    assert answer.json() == {"a": 1}
    assert answer.headers["content-length"] == str(len(packed))
    with pytest.raises(httpx.DecodingError):
        http.get(PATH)


@pytest.mark.parametrize("executed", [False, True])
def test_with_a_status_of_ones_own(mock: MockService, http: httpx.Client, executed: bool) -> None:
    mock.add_fault("body", text="<h1>Bad gateway</h1>", content_type="text/html")
    mock.add_fault("status", status=502, headers={"Server": "proxy"}, executed=executed)
    answer = http.get(PATH)
    assert (answer.status_code, answer.text) == (502, "<h1>Bad gateway</h1>")
    assert (answer.headers["server"], answer.headers.get_list("content-type")) == ("proxy", ["text/html"])
    assert mock.journal()[-1].faults == ("status", "body")


def test_a_body_can_be_spoiled_further(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("malformed_json")
    mock.add_fault("body", text="{}")
    assert http.get(PATH).text == "{,"


def test_an_answer_without_a_body_keeps_it(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("body", text="x", count=1)
    mock.add_fault("status", status=204, count=1)
    assert http.get(PATH).content == b""
    assert http.get(PATH).content == b"x"


def test_a_stream_in_one_piece(mock: MockService, http: httpx.Client) -> None:
    text = 'data: {"type":"signal","id":"sig_1","token_symbol":"A"}\n\n'
    mock.add_fault("body", route=STREAM, text=text)
    mock.add_fault("drop", after=0)
    answer = http.get(STREAM, params=ASK)
    assert answer.headers["content-type"] == "text/event-stream"
    assert ids(answer.content) == ["sig_1"]
    assert len(mock.world.subscribers) == 0
    assert mock.journal()[-1].faults == ("body",)
