"""Half an emoji in a stranger's text, or a byte order mark, costs that character, and no answer, page or signal."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import ConflictError, RawResponse

from .._answers import Service, agent, page, summary
from .._rows import each_of
from .._seller import TWO, Seller, settled
from .._streamscript import Life, StreamScript, fields, live
from .._streamservice_plan import BACKEND
from .._texts import HALVES
from ..unit._offers import encoded, prices
from ._client import client_of
from ._following import followed
from ._market import market_of

pytestmark = pytest.mark.twin

MARK = b"\xef\xbb\xbf"


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


def sent(body: Any, half: bytes, status: int = 200, mark: bytes = MARK) -> httpx.Response:
    """`body` with `half` for each HALF."""
    content = mark + json.dumps(body).encode().replace(b"HALF", half)
    return httpx.Response(status, content=content, headers={"content-type": "application/json"})


@each_of("half", HALVES)
async def test_models_pages_errors_and_raw_answers(half: bytes) -> None:
    body = page([agent(name="HALF", HALF={"HALF": ["HALF"]}), summary("a2")])
    problem = {"error": {"code": "conflict", "message": "HALF"}}
    client = client_of(
        Service(sent(body, half), sent(body["data"][0], half), sent(body, half), sent(problem, half, 409))
    )
    first, second = (await client.agents.list().page()).data
    text = HALVES[half]
    assert (first.name, second.id, (first.model_extra or {})[text]) == (text, "a2", {text: [text]})
    assert (await client.agents.get("a1")).name == text
    raw = await client.request("GET", "/v1/agents")
    assert raw.json()["data"][0]["name"] == text
    assert half in raw.content
    with pytest.raises(ConflictError) as caught:
        await client.agents.get("a1")
    assert (caught.value.service_code, caught.value.message) == ("conflict", text)


@each_of("half", HALVES)
async def test_a_stream_and_its_history(half: bytes) -> None:
    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        honest = script.honest(query)
        return httpx.Response(200, content=MARK + honest.content.replace(b"HALF", half), headers=script.date())

    listed = [fields("a", 5), fields("bad", 7, price_usd="HALF"), fields("b", 7, token_symbol="HALF")]
    symbol = live("c", 12, token_symbol="HALF").replace(b"HALF", half)
    lives: list[Life] = [[5.0, live("a", 5), 5.0], [1.0, symbol, 5.0, live("end", 17)]]
    script = StreamScript(*lives, listed=listed, history=history)
    found = await followed(script)
    assert (found.error, found.ids) == (None, ["a", "b", "c"])
    assert found.stats.invalid == 1
    replayed, came = found.signals[1:]
    assert replayed.token_symbol == HALVES[half]
    # The standard replaces each byte that is not UTF-8.
    assert came.token_symbol.count("\ufffd") >= 1
    assert came.token_symbol.replace("\ufffd" * 3, "\ufffd") == HALVES[half]


@each_of("half", HALVES)
async def test_a_paid_answer_and_its_receipt(half: bytes) -> None:
    def sold(request: httpx.Request) -> httpx.Response:
        answer = sent(prices("HALF", "ETH"), half)
        receipt = json.dumps(settled(HALF="HALF")).encode().replace(b"HALF", half)
        answer.headers["PAYMENT-RESPONSE"] = encoded(receipt)
        return answer

    client = market_of(Seller(sold=sold))
    result = await client.token_prices(TWO)
    text = HALVES[half]
    assert ([one.symbol for one in result.data.results], result.charged) == ([text, "ETH"], True)
    assert result.receipt is not None
    assert result.receipt.raw[text] == text
    (payment,) = await client.payments.list()
    assert payment.receipt == result.receipt


@given(st.lists(st.sampled_from([*HALVES, rb"\n", rb"\\", rb"\u00e9", "é".encode(), b"u", b"d83d"])))
def test_as_the_standard_library_reads_it(parts: list[bytes]) -> None:
    content = b'["' + b"".join(parts) + b'"]'
    (expected,) = json.loads(content.decode("utf-8", "surrogatepass"))
    halves = expected.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert RawResponse(200, {}, content).json() == [halves]
