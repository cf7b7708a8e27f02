"""Answers that no service should give, over real sockets. Each must end in an error of ours, with little read."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tradesdk import (
    APIConnectionError,
    APIError,
    APIResponseError,
    APIStatusError,
    APITimeoutError,
    NotFoundError,
    SystemClock,
    Timeout,
)

from .._answers import ACCOUNT, KEY
from .._clock import VirtualClock
from .._hostile import Visit, always, answer
from .._rows import each_of
from ._client import facing

pytestmark = pytest.mark.twin

MIB = 1024 * 1024
GOOD = answer(json.dumps(ACCOUNT).encode())


async def account_error(sent: bytes, **options: Any) -> APIError:
    """How `account.get` fails when the server sends these bytes and closes."""

    def answering(visit: Visit) -> None:
        visit.send(sent)
        visit.close()

    async with facing(answering, **{"max_retries": 0} | options) as (_, client):
        with pytest.raises(APIError) as caught:
            await client.account.get()
        assert KEY not in str(caught.value)
        assert str(caught.value).isprintable()
    return caught.value


@each_of("with_length", [True, False])
async def test_a_huge_answer_is_not_read_to_its_end(with_length: bool) -> None:
    """Of 40 MiB about 4 are read, and what the system buffers on the way."""
    sent = 0

    def answering(visit: Visit) -> None:
        nonlocal sent
        head = answer(length=40 * MIB) if with_length else b"HTTP/1.1 200 OK\r\n\r\n"
        visit.send(head)
        while sent < 40 * MIB and visit.send(b'"' + b"x" * (MIB - 1)):
            sent += MIB
        visit.close()

    async with facing(answering) as (server, client):
        with pytest.raises(APIResponseError, match="larger than 4 MiB") as caught:
            await client.account.get()
        assert caught.value.response is not None
        assert len(caught.value.response.content) <= 4 * MIB
        assert len(server.visits) == 1  # nor asked for again
    assert sent < 24 * MIB


async def test_a_huge_error_is_still_that_error() -> None:
    body = b'{"error": {"code": "not_found", "message": "x"}}' + b" " * (8 * MIB)
    error = await account_error(answer(body, status="404 Not Found"))
    assert isinstance(error, NotFoundError)
    assert len(error.body) == 64 * 1024


async def test_coding_that_is_cut_short_counts_as_lost() -> None:
    error = await account_error(answer(gzip.compress(b"{}" * 500, mtime=0)[:-9], content_encoding="gzip"))
    assert isinstance(error, APIConnectionError)
    assert (error.sent, "cut short" in str(error)) == (True, True)


@each_of("layers", [1, 2])
async def test_gzip_bomb(layers: int) -> None:
    bomb = gzip.compress(b" " * (5 * MIB))
    if layers == 2:
        error = await account_error(answer(gzip.compress(bomb), content_encoding="gzip, gzip"))
        assert "only gzip is accepted" in str(error)
    else:
        error = await account_error(answer(bomb, content_encoding="gzip"))
        assert "larger than 4 MiB" in str(error)
    assert type(error) is APIResponseError


@each_of("coding", ["gzip", "x-gzip", "GZIP", "identity", ""])
async def test_codings_that_are_understood(coding: str) -> None:
    plain = json.dumps(ACCOUNT).encode()
    body = gzip.compress(plain) if "g" in coding.lower() else plain
    async with facing(always(answer(body, content_encoding=coding))) as (_, client):
        assert (await client.account.get()).id == "acc_1"


@each_of("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_redirect_is_not_followed(status: str) -> None:
    """Not even to another path of the same server: the key would go along."""

    async with facing(always(answer(status=status, location="/v1/elsewhere"))) as (server, client):
        with pytest.raises(APIStatusError, match="redirects are never followed"):
            await client.account.get()
        assert len(server.visits) == 1


@each_of(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 200_000,
        b"\x16\x03\x01\x02\x00",
    ],
)
async def test_no_http_at_all(sent: bytes) -> None:
    error = await account_error(sent)
    assert not isinstance(error, APIStatusError | APIResponseError)
    assert error.outcome == "none"


async def test_strange_headers_are_survived() -> None:
    strange = answer(
        json.dumps(ACCOUNT).encode(),
        date="yesterday",
        x_ratelimit_limit="many",
        x_ratelimit_remaining="-1",
        x_ratelimit_reset="9" * 500,
        retry_after="soon",
        x_bytes="\xe4\xf6\xfc",
    )
    async with facing(always(strange)) as (_, client):
        for _ in range(3):
            assert (await client.account.get()).id == "acc_1"
        assert client.rate_limit is None


async def test_cookies_are_never_kept() -> None:
    async with facing(always(answer(json.dumps(ACCOUNT).encode(), set_cookie="a=1; Path=/"))) as (server, client):
        await client.account.get()
        await client.account.get()
        assert [b"cookie" in visit.head.lower() for visit in server.visits] == [False, False]


async def test_a_refusal_cut_short_is_still_a_refusal() -> None:
    """Its status came whole; asking again, or looking whether it happened, would be wrong."""
    cut = answer(b'{"error": {"code": "not_fo', status="404 Not Found", length=500)
    error = await account_error(cut, max_retries=5)
    assert isinstance(error, NotFoundError)
    assert (error.retries, error.code, error.service_code) == (0, "not_found", None)


@pytest.mark.long
async def test_a_refusal_whose_explanation_never_comes_is_still_a_refusal() -> None:
    def answering(visit: Visit) -> None:
        visit.send(answer(status="404 Not Found", length=500))
        visit.hold()

    async with facing(answering, timeout=Timeout(read=0.5)) as (server, client):
        with pytest.raises(NotFoundError):
            await client.account.get()
        assert len(server.visits) == 1


@pytest.mark.long
async def test_dripping_does_not_outlast_the_deadline() -> None:
    """Every piece comes within the read timeout, and yet the call ends."""
    drops = []

    def answering(visit: Visit) -> None:
        visit.send(answer(length=100_000))
        drops.append(visit.drip(b" ", 0.02))

    async with facing(answering, clock=SystemClock(), deadline=0.5, timeout=30) as (server, client):
        with pytest.raises(APITimeoutError):
            await client.account.get()
        assert len(server.visits) == 1
    assert 0 < drops[0] < 1000


@pytest.mark.long
async def test_silence_and_slowness_end_at_the_read_timeout() -> None:
    def answering(visit: Visit) -> None:
        if visit.number == 1:
            visit.send(b"HTTP/1.1 200 OK\r\ncontent-le")
        if visit.number == 2:
            visit.send(GOOD[:-5])
        if visit.number == 3:
            visit.send(GOOD)
        else:
            visit.hold()

    clock = VirtualClock()
    async with facing(answering, clock=clock, timeout=Timeout(read=0.5)) as (server, client):
        assert (await client.account.get()).id == "acc_1"
        assert len(server.visits) == 4
    assert len(clock.waits) == 3
