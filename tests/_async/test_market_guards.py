"""How much is paid, to whom, and for how long a signed payment is good for."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from typing import Any

import pytest
from eth_account import Account

from tradesdk import (
    AsyncMarketClient,
    Budget,
    InvalidArgumentError,
    Ledger,
    NotFoundError,
    Payment,
    PaymentRefusedError,
)
from tradesdk.payments import TokenDetails
from tradesdk.payments.signing.signer import authorization_signable, digest_of
from tradesdk_mock import MockService

from .._paidservice import CountingSigner
from .._payments import payment
from .._rows import each_of
from .._seller import BASE, PRICE, TWO, Seller, settled
from ..unit._offers import PAY_TO, offer_2, requirement_2
from ._market import buyer_of, market_of, refused

pytestmark = pytest.mark.twin

OTHER = "0x" + "Ab" * 20
TEN_YEARS = 10 * 365 * 86_400


def asking(**fields: Any) -> Seller:
    return Seller(offer=offer_2(requirement_2(**fields)))


def signed(seller: Seller) -> dict[str, str]:
    (sent,) = seller.payments
    found: dict[str, str] = sent["payload"]["authorization"]
    return found


# How much.


@each_of(
    ("amount", "options", "code"),
    [
        *((amount, {}, None) for amount in ("1", "59999", "60000", "0060000")),
        ("60001", {}, "over_price"),
        *(("90000", {"max_price": most}, None) for most in ("0.09", "1")),
        ("90001", {"max_price": "0.09"}, "over_price"),
    ],
)
async def test_the_published_price_is_the_most_unless_max_price_is_above_it(
    amount: str, options: dict[str, Any], code: str | None
) -> None:
    seller = asking(amount=amount)
    if code is not None:
        await refused(seller, code, call=lambda client: client.token_prices(TWO, **options))
        return
    result = await market_of(seller).token_prices(TWO, **options)
    assert signed(seller)["value"] == str(int(amount))
    assert result.payment is not None
    assert (result.payment.amount, result.quote.amount) == (int(amount), PRICE)


async def test_max_price_does_not_pass_a_budget() -> None:
    error = await refused(
        asking(amount="90000"),
        "over_budget",
        call=lambda client: client.token_prices(TWO, max_price="0.09"),
        budget=Budget(total="0.07"),
    )
    assert "$0.07" in error.message


@each_of("bad", [0.06, 60_000, "1e3", "-1", "+1", "NaN", "0.0000001", "", " 1", "$1", True, b"1"])
async def test_max_price_that_is_no_amount(bad: Any) -> None:
    seller = Seller()
    client = market_of(seller)
    with pytest.raises(InvalidArgumentError, match="max_price"):
        await client.token_prices(TWO, max_price=bad)
    with pytest.raises(InvalidArgumentError, match="max_price"):
        await client.dry_run.token_prices(TWO, max_price=bad)
    assert seller.requests == []


# To whom.


async def test_the_first_recipient_is_remembered() -> None:
    ledger, signer = Ledger.memory(), CountingSigner()
    await market_of(asking(payTo=PAY_TO), ledger=ledger).token_prices(TWO)
    await market_of(asking(payTo=PAY_TO.lower()), ledger=ledger).token_prices(TWO)  # the same one
    changed = asking(payTo=OTHER)
    client = market_of(changed, ledger=ledger, signer=signer)
    with pytest.raises(PaymentRefusedError) as caught:
        await client.token_prices(TWO)
    assert caught.value.code == "recipient_changed"
    assert OTHER in caught.value.message
    assert f"client.payments.trust('{OTHER}')" in caught.value.hint
    assert (signer.digests, changed.paid) == ([], [])
    assert len(await client.payments.list()) == 2
    spending = await client.payments.spending()
    assert (spending.total.counted, spending.held) == (2 * PRICE, 2 * PRICE)  # there was no receipt

    await client.payments.trust(OTHER.lower())
    await client.token_prices(TWO)
    assert signed(changed)["to"] == OTHER
    await market_of(asking(payTo=PAY_TO), ledger=ledger).token_prices(TWO)  # the first one is still trusted


async def test_the_first_recipient_of_a_service_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also of many calls at once; nobody is told of a configured one, or of what was not signed."""
    caplog.set_level(logging.INFO, "tradesdk")

    def told() -> list[tuple[str, str, str]]:
        found = [vars(one) for one in caplog.records if vars(one).get("event") == "recipient_remembered"]
        return [(one["levelname"], one["address"], one["url"]) for one in found]

    await market_of(Seller(), pay_to=[PAY_TO]).token_prices(TWO)
    ledger = Ledger.memory()
    await refused(asking(amount="60001"), "over_price", ledger=ledger)
    assert told() == []
    client = market_of(Seller(receipt=settled()), ledger=ledger)
    for tokens in (TWO, TWO[::-1], TWO):
        await client.token_prices(tokens)
    await market_of(Seller(receipt=settled()), ledger=ledger).token_prices(TWO)
    assert told() == [("INFO", PAY_TO, BASE)]
    await market_of(Seller(receipt=settled()), ledger=ledger, base_url="https://other.example").token_prices(TWO)
    assert told() == [("INFO", PAY_TO, BASE), ("INFO", PAY_TO, "https://other.example")]
    assert PAY_TO in caplog.text


async def test_a_recipient_is_remembered_for_its_origin() -> None:
    ledger = Ledger.memory()
    for url, recipient in ((BASE, PAY_TO), ("https://other.example", OTHER), (f"{BASE}:8443", OTHER)):
        await market_of(asking(payTo=recipient), ledger=ledger, base_url=url).token_prices(TWO)
    for url, recipient in ((f"{BASE}/behind/a/path", OTHER), ("https://other.example", PAY_TO)):
        client = market_of(asking(payTo=recipient), ledger=ledger, base_url=url)
        with pytest.raises(PaymentRefusedError, match="recipient_changed"):
            await client.token_prices(TWO)


async def test_configured_recipients_are_the_only_ones() -> None:
    await refused(asking(payTo=OTHER), "recipient_changed", pay_to=[PAY_TO])
    for configured in ([PAY_TO], [OTHER, PAY_TO.lower()], ("0x" + PAY_TO[2:].upper(),)):
        seller = asking()
        await market_of(seller, pay_to=configured).token_prices(TWO)
        assert signed(seller)["to"] == PAY_TO


@each_of("bad", [PAY_TO, {PAY_TO}, ["0x12"], ["service.eth"], [""], [PAY_TO[:-1] + "g"]])
def test_recipients_are_a_list_of_addresses(bad: Any) -> None:
    match = "pay_to" if isinstance(bad, list) else "pay_to must be a list of addresses"
    with pytest.raises(InvalidArgumentError, match=match):
        market_of(Seller(), pay_to=bad)


async def test_of_several_only_the_remembered_one_is_paid() -> None:
    """A dry run knows it as well."""
    ledger = Ledger.memory()
    await market_of(asking(), ledger=ledger).token_prices(TWO)
    seller = Seller(offer=offer_2(requirement_2(payTo=OTHER, amount="1"), requirement_2()))
    await market_of(seller, ledger=ledger).token_prices(TWO)
    assert signed(seller)["to"] == PAY_TO
    tried = await market_of(asking(payTo=OTHER), ledger=ledger).dry_run.token_prices(TWO)
    assert tried.refusal is not None
    assert tried.refusal.code == "recipient_changed"
    assert tried.authorization is None


# For how long.


@each_of(("offered", "most", "seconds"), [(TEN_YEARS, 120, 120), (60, 120, 60), (60, 30, 30), (2**70, 3600, 3600)])
async def test_a_payment_is_valid_as_long_as_offered_and_no_longer_than_allowed(
    offered: float, most: int, seconds: int
) -> None:
    seller = asking(maxTimeoutSeconds=offered)
    await market_of(seller, max_validity=most).token_prices(TWO)
    now = int(seller.clock.now())
    assert int(signed(seller)["validBefore"]) == now + seconds
    assert int(signed(seller)["validAfter"]) == 0


# The signature itself.


class Wallet:
    """A wallet that signs typed data, as a wallet service does."""

    address = CountingSigner().address

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def sign_typed_data(self, domain: dict[str, Any], types: dict[str, Any], message: dict[str, Any], /) -> Any:
        self.messages.append(dict(message))
        return Account.from_key(b"\x01" * 32).sign_typed_data(domain, types, message)


async def test_an_account_of_eth_account_pays() -> None:
    """As it is; and a wallet sees what it pays, to whom and until when."""
    for signer in (Account.from_key(b"\x01" * 32), Wallet()):
        seller = Seller(receipt=settled())
        result = await market_of(seller, signer=signer).token_prices(TWO)
        assert (result.charged, result.warnings) == (True, ())
        (header,) = seller.payments
        signable = authorization_signable(_read(header["payload"]["authorization"]))
        ours = CountingSigner().sign_digest(digest_of(signable))
        assert header["payload"]["signature"] == "0x" + ours.hex()
    assert isinstance(signer, Wallet)
    (message,) = signer.messages
    sent = header["payload"]["authorization"]
    assert {name: str(value) for name, value in message.items()} == sent
    assert (message["value"], message["to"]) == (PRICE, PAY_TO)


def _read(sent: dict[str, str]) -> Payment:
    return payment(
        payer=sent["from"],
        pay_to=sent["to"],
        amount=int(sent["value"]),
        valid_before=int(sent["validBefore"]),
        nonce=sent["nonce"],
    )


# For which tokens.


def checking(mock: MockService, **options: Any) -> AsyncMarketClient:
    return buyer_of(mock, check_tokens=True, **options)


def asked(mock: MockService) -> list[str]:
    return [f"{entry.path} {entry.status}" for entry in mock.journal()]


async def test_a_symbol_that_nobody_knows_is_refused_before_anything_is_signed(mock: MockService) -> None:
    signer, ledger = CountingSigner(), Ledger.memory()
    client = checking(mock, signer=signer, ledger=ledger)
    for tokens, named, meant in (
        (["ETH", "BRTT"], "'BRTT' is", "did you mean BRETT"),
        (["breet"], "'breet' is", "did you mean BRETT"),
        (["cookie dao"], "'cookie dao' is", "did you mean COOKIE"),  # a name is no identifier
        (["a", "b", "c", "d", "e"], "'a', 'b', 'c', 'd', 'e' are", "by its address"),
        (["Qqqqqqqq", "NOPE", "ETH"], "'Qqqqqqqq', 'NOPE' are", "by its address, or with check_tokens=False"),
    ):
        for call in (
            lambda given: client.token_prices(given),
            lambda given: client.token_signals(given),
            lambda given: client.request("/v1/token-prices", json={"tokens": [{"identifier": one} for one in given]}),
        ):
            with pytest.raises(PaymentRefusedError) as caught:
                await call(tokens)
            assert caught.value.code == "unknown_token"
            assert named in str(caught.value)
            assert "not among the first 500 of 620 tokens" in str(caught.value)
            assert meant in caught.value.hint
            assert isinstance(caught.value.details, TokenDetails)
            near = caught.value.details.suggestions
            assert bool(near) == ("did you mean" in caught.value.hint)
            assert all(name in caught.value.hint for name in near)
            assert set(caught.value.details.unknown) <= set(tokens)
    assert (signer.digests, ledger.history()) == ([], [])
    with pytest.raises(PaymentRefusedError, match=r"'q4' and 7 more are not among"):
        await anext(client.batches.token_prices([f"q{n}" for n in range(12)]))
    assert asked(mock).count("/v1/supported-tokens 200") == 1
    free = buyer_of(mock)
    with pytest.raises(NotFoundError):
        await free.token_prices(["BRTT"])


async def test_a_check_that_another_call_holds_up_is_left_out_at_the_deadline(mock: MockService) -> None:
    """As when the list cannot be read."""
    client = checking(mock, deadline=0.05)
    check = client._paying.tokens
    assert check is not None
    turn = check._locks.of("")
    assert await turn.acquire(0)
    assert (await client.token_prices(["ETH"])).data.results[0].symbol == "ETH"
    turn.release()
    assert "/v1/supported-tokens 200" not in asked(mock)


async def test_what_can_be_bought_is_not_refused(mock: MockService) -> None:
    """Three ways to name a token, in any case; not all of them are in the list."""
    client = checking(mock)
    listed = (await client.supported_tokens(limit=500)).data.tokens
    address = next(token.token_address for token in listed if token.symbol == "BRETT")
    for name in ("eth", "Brett", "ethereum", "based-brett", address, address.lower(), "0X" + address[2:].upper()):
        await client.token_prices([name])
    assert asked(mock).count("/v1/supported-tokens 200") == 2


async def test_the_list_is_read_once_an_hour_and_for_a_new_symbol_once_a_minute(mock: MockService) -> None:
    client = checking(mock)

    def reads() -> int:
        return asked(mock).count("/v1/supported-tokens 200")

    await client.dry_run.token_prices(["0x" + "ab" * 20])
    await client.quote.token_prices(["BRTT"])
    assert reads() == 0, "a quote asks nothing, and an address is not looked up"
    for after, name, number in (
        (0, "ETH", 1),
        (59, "BRTT", 1),
        (2, "BRTT", 2),
        (59, "BRTT", 2),
        (3000, "BRETT", 2),
        (542, "TOSHI", 3),
    ):
        mock.clock.advance(after)
        with pytest.raises(PaymentRefusedError, match="unknown_token") if name == "BRTT" else nullcontext():
            await client.with_options(max_retries=0).token_prices([name])
        assert reads() == number, (after, name)


async def test_a_dry_run_looks_symbols_up_as_the_call_would(mock: MockService) -> None:
    ledger = Ledger.memory()
    client = checking(mock, ledger=ledger)
    for name, code in (("BRETT", None), ("BRTT", "unknown_token"), ("ETH", None)):
        plan = await client.dry_run.token_prices([name])
        refusal = plan.refusal
        assert (None if refusal is None else refusal.code) == code
        assert (plan.authorization is None) == (refusal is not None)
    assert asked(mock).count("/v1/supported-tokens 200") == 1
    assert ledger.history() == []
    for other in (buyer_of(mock), checking(mock, signer=None)):
        tried = (await other.dry_run.token_prices(["BRTT"])).refusal
        assert tried is None or tried.code == "no_signer"
    assert asked(mock).count("/v1/supported-tokens 200") == 1


@pytest.mark.parametrize("fault", [{"kind": "status", "status": 500}, {"kind": "reset"}, {"kind": "malformed_json"}])
async def test_a_list_that_cannot_be_read_holds_nothing_up(
    mock: MockService, caplog: pytest.LogCaptureFixture, fault: dict[str, Any]
) -> None:
    client = checking(mock)
    mock.add_fault(**fault, route="/v1/supported-tokens")
    for _ in range(2):
        assert (await client.token_prices(["ETH"])).charged is True
    assert len([entry for entry in mock.journal() if entry.path == "/v1/supported-tokens"]) == 1
    assert [vars(record).get("event") for record in caplog.records].count("tokens_unchecked") == 1


@pytest.mark.parametrize("most", [0, 1])
async def test_a_list_that_leaves_most_tokens_out_refuses_nothing(mock: MockService, most: int) -> None:
    client = checking(mock)
    answer = (await client.request("/v1/supported-tokens", json={"limit": 1})).data.json()
    answer["data"]["tokens"] = answer["data"]["tokens"][:most]
    mock.add_fault("body", route="/v1/supported-tokens", text=json.dumps(answer))
    assert (await client.token_prices(["BRETT"])).charged is True
    assert asked(mock).count("/v1/supported-tokens 200") == 2
