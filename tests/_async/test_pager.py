"""Walking lists: lazily, to the end, and no further than asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import (
    APIConnectionError,
    APIResponseError,
    APIStatusError,
    AsyncPager,
    AsyncTradeClient,
    ServiceUnavailableError,
    Trade,
)
from tradesdk._http import repeated_pages

from .._answers import Service, failed, ok, page, trade
from .._clock import VirtualClock
from .._rows import each_of
from ._client import client_of, connected

pytestmark = pytest.mark.twin

LIST = "GET /v1/trades?limit=100"


def trades(*numbers: int) -> list[Any]:
    return [trade(f"t{number}") for number in numbers]


async def ids(pager: AsyncPager[Trade]) -> list[str]:
    return [item.id async for item in pager]


async def collect(pager: AsyncPager[Trade], seen: list[str]) -> None:
    """As `ids`, but what came before an error is not lost."""
    async for item in pager:
        seen.append(item.id)


@pytest.mark.rule("page.last", "page.cursor.walk")
async def test_all_pages() -> None:
    service = Service(ok(page(trades(1, 2), "c1")), ok(page(trades(3), "c2")), ok(page(trades(4))))
    assert await ids(client_of(service).trades.list()) == ["t1", "t2", "t3", "t4"]
    assert service.sent == [LIST, LIST + "&cursor=c1", LIST + "&cursor=c2"]


async def test_nothing_is_asked_before_the_first_item() -> None:
    service = Service()
    client = client_of(service)
    pager = client.trades.list()
    pager.pages()
    assert repr(pager).endswith("of Trade at /v1/trades>")
    assert service.requests == []


async def test_leaving_early_costs_no_request() -> None:
    """Not even after the last item of a page."""
    service = Service(ok(page(trades(1, 2), "c1")))
    async for item in client_of(service).trades.list():
        if item.id == "t2":
            break
    assert service.sent == [LIST]


async def test_leaving_pages_early_costs_no_request() -> None:
    service = Service(ok(page(trades(1, 2), "c1")))
    async for found in client_of(service).trades.list().pages():
        assert [item.id for item in found.data] == ["t1", "t2"]
        assert found.next_cursor == "c1"
        break
    assert service.sent == [LIST]


@pytest.mark.rule("page.fields")
async def test_pages() -> None:
    service = Service(ok(page(trades(1, 2), "c1")), ok(page([], "c2")), ok(page(trades(3))))
    found = [(len(one.data), one.next_cursor) async for one in client_of(service).trades.list(limit=2).pages()]
    assert found == [(2, "c1"), (0, "c2"), (1, None)]
    assert service.sent[2] == "GET /v1/trades?limit=2&cursor=c2"


@each_of(
    ("options", "sent", "kept", "cursor"),
    [
        ({}, LIST, ["t1", "t2"], "c1"),
        ({"limit": 2, "cursor": "c0"}, "GET /v1/trades?limit=2&cursor=c0", ["t1", "t2"], "c1"),
        ({"max_items": 1}, "GET /v1/trades?limit=1", ["t1"], "c1"),  # the service sends more than was asked for
        ({"max_items": 0, "cursor": "c0"}, None, [], "c0"),
    ],
)
async def test_the_first_page(options: dict[str, Any], sent: str | None, kept: list[str], cursor: str) -> None:
    answers = [ok(page(trades(1, 2), "c1"))] * 3 if sent else []
    service = Service(*answers)
    pager = client_of(service).trades.list(**options)
    found = [await pager.page(), await pager.page()]
    found.append(await pager)  # async only
    assert [[item.id for item in one.data] for one in found] == [kept] * len(found)
    assert [one.next_cursor for one in found] == [cursor] * len(found)
    assert service.sent == [sent] * (len(found) if sent else 0)


async def test_a_page_is_not_walked() -> None:
    found: Any = await client_of(Service(ok(page(trades(1), "c1")))).trades.list().page()
    for walk in (iter, list, tuple):
        with pytest.raises(TypeError, match=r"in \.data"):
            walk(found)
    with pytest.raises(TypeError, match=r"in \.data"):
        await anext(aiter(found))
    assert found.model_copy() == found


@each_of("cursor", ["", None])
async def test_an_empty_cursor_is_none(cursor: str | None) -> None:
    service = Service(ok({"data": trades(1), "next_cursor": cursor}))
    assert await ids(client_of(service).trades.list()) == ["t1"]


@pytest.mark.rule("page.last")
async def test_empty_list() -> None:
    service = Service(ok(page([])), ok(page([])))
    client = client_of(service)
    assert await ids(client.trades.list()) == []
    assert await client.trades.list().first() is None


async def test_first_asks_for_one() -> None:
    service = Service(ok(page(trades(1), "c1")))
    found = await client_of(service).trades.list(limit=50).first()
    assert found is not None
    assert found.id == "t1"
    assert service.sent == ["GET /v1/trades?limit=1"]


async def test_first_goes_past_an_empty_page() -> None:
    service = Service(ok(page([], "c1")), ok(page(trades(1), "c2")))
    found = await client_of(service).trades.list().first()
    assert found is not None
    assert service.sent == ["GET /v1/trades?limit=1", "GET /v1/trades?limit=1&cursor=c1"]


async def test_first_of_none_at_most() -> None:
    service = Service()
    assert await client_of(service).trades.list(max_items=0).first() is None
    assert service.requests == []


@each_of(
    ("limit", "max_items", "sent"),
    [
        (None, None, ["100", "100", "100"]),
        (2, None, ["2", "2", "2"]),
        (None, 3, ["3", "1"]),
        (2, 3, ["2", "1"]),
        (100, 2, ["2"]),
        (1, 4, ["1", "1"]),
        (None, 1, ["1"]),
        (None, 0, []),
    ],
)
async def test_limit_is_the_page_and_max_items_the_total(limit: int | None, max_items: int | None, sent: Any) -> None:
    """The pages have two items whatever was asked for: what is too much is left out."""
    service = Service(ok(page(trades(1, 2), "c1")), ok(page(trades(3, 4), "c2")), ok(page(trades(5))))
    found = await ids(client_of(service).trades.list(limit=limit, max_items=max_items))
    assert found == ["t1", "t2", "t3", "t4", "t5"][:max_items]
    assert [request.url.params["limit"] for request in service.requests] == sent


async def test_filters_stay_on_every_page() -> None:
    service = Service(ok(page(trades(1), "c1")), ok(page(trades(2))))
    await ids(client_of(service).trades.list(agent_id="a1", status="open"))
    target = "GET /v1/trades?agent_id=a1&status=open&limit=100"
    assert service.sent == [target, target + "&cursor=c1"]


async def test_every_walk_begins_anew() -> None:
    service = Service(*(ok(page(trades(1, 2))) for _ in range(2)))
    pager = client_of(service).trades.list()
    assert await ids(pager) == await ids(pager) == ["t1", "t2"]


@each_of(
    ("start", "cursors", "walked"),
    [
        (None, ["c1", "c1"], 2),
        (None, ["c1", "c2", "c1"], 3),
        (None, ["c1", "c2", "c3", "c4", "c2"], 5),
        ("c0", ["c0"], 1),
        ("c0", ["c1", "c0"], 2),
    ],
)
async def test_cursors_in_a_circle_are_an_error(start: str | None, cursors: list[str], walked: int) -> None:
    """What came before is still handed over."""
    service = Service(*(ok(page(trades(number), cursor)) for number, cursor in enumerate(cursors)))
    seen: list[str] = []
    with pytest.raises(APIResponseError, match="repeats a cursor") as caught:
        await collect(client_of(service).trades.list(cursor=start), seen)
    assert len(seen) == walked
    assert service.left == 0
    assert (caught.value.method, caught.value.code) == ("GET", "pagination_loop")


def looping(tail: int, period: int, size: int, limit: int) -> Callable[[httpx.Request], httpx.Response]:
    """A list of `tail` items, and then the next `period` items over and over, each page with a new cursor."""

    def answering(request: httpx.Request) -> httpx.Response:
        at = int(request.url.params.get("cursor", 0))
        assert at < limit, "it never ends"
        numbers = (n if n < tail else tail + (n - tail) % period for n in range(at, at + size))
        return ok(page(trades(*numbers), str(at + size)))

    return answering


@pytest.mark.long
@each_of(
    ("tail", "period", "size", "limit"),
    [
        *((0, 1, 1, 2), (0, 100, 100, 200), (0, 2, 1, 3), (0, 30, 100, 200), (0, 250, 100, 400)),
        *((0, 257, 10, 280), (0, 4999, 100, 5200)),  # it begins again
        *((3000, 100, 100, 6400), (3000, 50, 100, 6400), (3000, 700, 100, 7200), (2000, 300, 10, 3000)),  # further on
    ],
)
async def test_items_that_repeat_under_new_cursors_are_an_error(tail: int, period: int, size: int, limit: int) -> None:
    """What came before is still handed over, and hardly anything twice."""
    seen: list[str] = []
    with pytest.raises(APIResponseError, match="no new items") as caught:
        await collect(client_of(looping(tail, period, size, limit + size)).trades.list(limit=size), seen)
    assert len(set(seen)) == tail + period
    assert len(seen) <= limit
    assert caught.value.code == "pagination_loop"


async def test_empty_pages_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few are none: a service that filters what it has read may have some."""
    monkeypatch.setattr(repeated_pages, "_MOST_EMPTY", 50)

    def answering(request: httpx.Request) -> httpx.Response:
        at = int(request.url.params.get("cursor", 0))
        assert at <= 100, "it never ends"
        return ok(page(trades(at) if at == 45 else [], str(at + 1)))

    seen: list[str] = []
    with pytest.raises(APIResponseError, match="no new items") as caught:
        await collect(client_of(answering).trades.list(), seen)
    assert (seen, caught.value.code) == (["t45"], "pagination_loop")


async def test_the_last_page_may_repeat_all_of_it() -> None:
    """And a page may repeat some, as when something new came meanwhile; nothing is endless there."""
    service = Service(ok(page(trades(1, 2), "c1")), ok(page(trades(2, 3), "c2")), ok(page(trades(2, 3))))
    assert await ids(client_of(service).trades.list()) == ["t1", "t2", "t2", "t3", "t2", "t3"]


async def test_a_repeated_cursor_after_all_that_was_wanted_is_nobodys_business() -> None:
    service = Service(ok(page(trades(1), "c1")), ok(page(trades(2), "c1")))
    assert await ids(client_of(service).trades.list(max_items=2)) == ["t1", "t2"]


@pytest.mark.rule("limit.page.max")
async def test_more_items_than_a_page_may_have_are_refused() -> None:
    service = Service(ok(page(trades(*range(100)))), ok(page(trades(*range(101)))))
    client = client_of(service)
    assert len(await ids(client.trades.list())) == 100
    with pytest.raises(APIResponseError):
        await ids(client.trades.list())


async def test_a_cursor_too_long_for_a_url_is_an_error_of_ours() -> None:
    """Whether it came from the service, or from the caller."""
    cursor, clock = "c" * 70_000, VirtualClock()
    service = Service(ok(page([trade()], cursor)))
    for pager in (
        client_of(service, clock).trades.list(),
        connected("http://127.0.0.1:9", clock=clock).trades.list(cursor=cursor),
    ):
        with pytest.raises(APIConnectionError, match="URL too long") as caught:
            await ids(pager)
        assert (caught.value.sent, caught.value.temporary, len(str(caught.value)) < 1300) == (False, False, True)
    assert len(service.requests) == 1
    assert clock.waits == []


async def test_an_error_in_the_middle() -> None:
    service = Service(ok(page(trades(1), "c1")), failed(400, "the cursor has expired"))
    seen: list[str] = []
    with pytest.raises(APIStatusError, match="expired"):
        await collect(client_of(service).trades.list(), seen)
    assert seen == ["t1"]


async def test_pages_are_retried_one_by_one() -> None:
    service = Service(ok(page(trades(1), "c1")), failed(503), ok(page(trades(2))))
    assert await ids(client_of(service).trades.list()) == ["t1", "t2"]
    service = Service(failed(503))
    with pytest.raises(ServiceUnavailableError):
        await ids(client_of(service, max_retries=0).trades.list())


async def test_a_whole_list() -> None:
    assert [item.id for item in await three_trades().trades.list().to_list()] == ["t1", "t2", "t3"]


@pytest.mark.long  # loads three large libraries; tests/unit/test_frames.py makes the same of a list
async def test_a_whole_list_as_a_frame() -> None:
    table = await three_trades().trades.list(max_items=2).to_arrow()
    assert table["id"].to_pylist() == ["t1", "t2"]
    empty = await client_of(Service(ok(page([])))).trades.list().to_arrow()
    assert (empty.num_rows, empty.schema) == (0, table.schema)
    assert (await three_trades().trades.list().to_pandas())["id"].tolist() == ["t1", "t2", "t3"]
    assert (await three_trades().trades.list().to_polars())["id"].to_list() == ["t1", "t2", "t3"]


def three_trades() -> AsyncTradeClient:
    return client_of(Service(ok(page(trades(1, 2), "c1")), ok(page(trades(3)))))
