"""Errors carry all there is to know, print on one line, and can be pickled."""

from __future__ import annotations

import pickle
import ssl
import traceback
from typing import Any

import httpx
import pytest

from tradesdk import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    InvalidRequestError,
    InvalidSignatureError,
    LocalSigner,
    wallet_message,
)

from .._answers import BASE, KEY, Service, failed, ok
from .._ports import free_port
from .._rows import each_of
from ._client import client_of, connected

pytestmark = pytest.mark.twin


async def error_after(*answers: Any, **options: Any) -> APIError:
    with pytest.raises(APIError) as caught:
        await client_of(Service(*answers), **options).agents.update("a1", name="n")
    error = caught.value
    line = str(error)
    assert line.isprintable()
    assert len(line) < 1400
    assert KEY not in line + repr(error) + repr(vars(error))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is type(error)
    assert str(copy) == line
    assert (error.method, error.url) == ("PATCH", f"{BASE}/v1/agents/a1")
    return error


@pytest.mark.rule("wallets.connect.bad-signature")
async def test_invalid_signature_is_an_invalid_request() -> None:
    body = {"error": {"code": "invalid_signature", "message": "not by this address"}}
    error = await error_after(ok(body, 400))
    assert type(error) is InvalidSignatureError
    assert isinstance(error, InvalidRequestError)
    assert type(await error_after(ok(body, 422))) is not InvalidSignatureError


@each_of(
    ("message", "signed", "next_step"),
    [
        (
            None,
            "Trade wallet verification\\nAddress: ",
            "the service documents none; pass the one that the dash",
        ),
        (
            "I own\nit",
            '"I own\\nit"',
            "compare it with the dashboard's, line breaks too, and check that",
        ),
    ],
)
async def test_a_refused_signature_says_what_was_signed(message: str | None, signed: str, next_step: str) -> None:
    refusal = ok({"error": {"code": "invalid_signature", "message": "no"}}, 400)
    signer = LocalSigner.from_key("0x" + "01" * 32)
    with pytest.raises(InvalidSignatureError) as caught:
        await client_of(Service(refusal)).wallets.connect_with(signer, label="l", message=message)
    error = caught.value
    text = message or wallet_message(signer.address, 8453)
    assert (error.signed, error.is_default_text) == (text, message is None)
    assert signed in error.hint
    assert next_step in error.hint
    assert ("message=" in error.hint) == (message is None), "never what was just tried"
    assert pickle.loads(pickle.dumps(error)).hint == error.hint  # noqa: S301 - our own bytes
    with pytest.raises(InvalidSignatureError) as caught:
        await client_of(Service(refusal)).wallets.connect(
            address=signer.address, chain_id=8453, label="l", signature="0x11"
        )
    assert (caught.value.signed, caught.value.hint[:47]) == (None, "sign exactly the text that the dashboard shows ")


@each_of("key", [KEY, lambda: KEY])
async def test_a_service_that_repeats_the_key_is_not_quoted(key: Any) -> None:
    for status in (401, 503):
        with pytest.raises(APIStatusError, match=r"what is '\*\*\*\*'[?]") as caught:
            await client_of(Service(failed(status, f"what is '{KEY}'?")), max_retries=0, api_key=key).account.get()
        assert KEY not in str(caught.value) + caught.value.message + repr(caught.value)


async def test_the_way_of_an_error_leads_through_nothing_but_the_call() -> None:
    with pytest.raises(APIStatusError) as caught:
        await client_of(Service(failed(404))).agents.get("a1")
    assert [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "tenacity" in frame.filename] == []


async def test_connection_errors() -> None:
    error = await error_after(*[httpx.ConnectError("[Errno 111] Connection refused")] * 6)
    assert type(error) is APIConnectionError
    assert (error.sent, error.temporary, error.outcome, error.retries) == (False, True, "none", 5)
    assert "after 5 retries" in str(error)
    error = await error_after(*[httpx.ReadTimeout("")] * 6)
    assert type(error) is APITimeoutError
    assert (error.sent, error.temporary, error.outcome) == (True, True, "unknown")
    assert "no answer in time" in str(error)
    assert error.__cause__ is not None


@each_of("busy_with", [KeyError("the caller's own secret"), ssl.SSLCertVerificationError("old")])
async def test_what_the_caller_was_busy_with_is_no_part_of_the_error(busy_with: Exception) -> None:
    async with connected(f"http://127.0.0.1:{free_port()}") as client:
        try:
            raise busy_with
        except Exception:
            with pytest.raises(APIConnectionError, match="connection refused") as caught:
                await client.account.get()
    assert caught.value.temporary
    assert type(caught.value.__cause__) is ConnectionRefusedError
