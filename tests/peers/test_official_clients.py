"""The official clients buy from our mock: each with every transport of theirs, over real sockets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tradesdk_mock import GapOptions, MockServer

from ._programs import Program, Purchases
from .conftest import Payer

NODE = pytest.param(
    "node fetch", marks=pytest.mark.skipif(not os.environ.get("PEERS_NODE"), reason="run by scripts/peers --node")
)
CLIENTS = ["v2 requests", "v2 httpx", NODE]
pytestmark = pytest.mark.peers

Buyers = Callable[[str], Program]
PURCHASES: Purchases = (
    ("/v1/token-prices", {"tokens": [{"identifier": "ETH"}, {"identifier": "BRETT"}]}),
    ("/v1/token-signals", {"tokens": [{"identifier": "BRETT", "limit": 2}]}),
    ("/v1/signal-history", {"tokens": [{"identifier": "BRETT"}], "signalType": "BUY"}),
    ("/v1/token-win-rate", {"tokens": [{"identifier": name} for name in ("ETH", "BRETT", "TOSHI")]}),
    ("/v1/token-avg-prices", {"tokens": [{"identifier": "ETH"}]}),
    ("/v1/top-performers", {"sortBy": "ROI", "limit": 2}),
    ("/v1/aggregate-metrics", {}),
)
AMOUNTS = (60_000, 50_000, 50_000, 90_000, 20_000, 60_000, 60_000)


def buy(
    buyers: Buyers, client: str, server: MockServer, payer: Payer, purchases: Purchases = PURCHASES[:1], **more: Any
) -> list[dict[str, Any]]:
    name, flavour = client.split()
    asked = {"url": server.url, "key": payer.key, "flavour": flavour, "buy": list(purchases), **more}
    bought: list[dict[str, Any]] = buyers(name).ask(asked)
    assert len(bought) == len(purchases)
    return bought


@pytest.mark.parametrize("client", CLIENTS)
def test_everything_for_sale(client: str, buyers: Buyers, payer: Payer) -> None:
    with MockServer() as server:
        before = server.payments.balance(payer.address)
        bought = buy(buyers, client, server, payer, PURCHASES)
        assert [one["status"] for one in bought] == [200] * len(PURCHASES)
        settled = server.payments.assert_charged(times=len(PURCHASES), amount=sum(AMOUNTS), payer=payer.address)
        assert [(one.path, one.amount) for one in settled] == list(
            zip((path for path, _ in PURCHASES), AMOUNTS, strict=True)
        )
        for one, made in zip(bought, settled, strict=True):
            assert one["body"]["success"] is True
            assert one["body"]["data"]
            assert one["receipt"]["success"] is True
            assert one["receipt"]["transaction"] == made.transaction
            assert one["receipt"]["payer"].lower() == made.payer.lower() == payer.address.lower()
            assert one["receipt"]["network"] == "eip155:8453"
            assert made.submitted == 1
        assert server.payments.balance(payer.address) == before - sum(AMOUNTS)
        server.payments.assert_not_charged_twice()
        assert server.payments.signatures(payer.address) == len(PURCHASES)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_not_there_costs_nothing(client: str, buyers: Buyers, payer: Payer) -> None:
    unknown = ("/v1/token-prices", {"tokens": [{"identifier": "NO-SUCH-TOKEN"}]})
    with MockServer() as server:
        (one,) = buy(buyers, client, server, payer, [unknown])
        assert one["status"] == 404
        assert one["body"]["success"] is False
        assert one["receipt"] is None
        server.payments.assert_charged(times=0)
        assert [seen.verdict for seen in server.payments.submissions()] == ["not charged"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_payer_without_money(client: str, buyers: Buyers, payer: Payer) -> None:
    with MockServer(gaps=GapOptions(payer_balance=0)) as server:
        (one,) = buy(buyers, client, server, payer)
        assert one["status"] == 402
        assert "insufficient" in one["error"]
        server.payments.assert_charged(times=0)


@pytest.mark.parametrize("client", CLIENTS)
def test_several_ways_to_pay(client: str, buyers: Buyers, payer: Payer) -> None:
    """Official clients take the first way that they can, which here is the dearer one."""
    with MockServer(gaps=GapOptions(offers="several")) as server:
        (one,) = buy(buyers, client, server, payer)
        assert one["status"] == 200
        server.payments.assert_charged(times=1, amount=2 * AMOUNTS[0], payer=payer.address)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_extension_is_echoed(client: str, buyers: Buyers, payer: Payer) -> None:
    with MockServer(gaps=GapOptions(payment_identifier="optional")) as server:
        (one,) = buy(buyers, client, server, payer)
        assert one["status"] == 200
        server.payments.assert_charged(times=1, amount=AMOUNTS[0])


@pytest.mark.parametrize("client", CLIENTS[:2])
def test_an_identified_payment(client: str, buyers: Buyers, payer: Payer) -> None:
    """The official client signs anew each time, so the second purchase has the same id and another payload."""
    with MockServer(gaps=GapOptions(payment_identifier="required")) as server:
        (nameless,) = buy(buyers, client, server, payer)
        first, second = buy(buyers, client, server, payer, [PURCHASES[0]] * 2, identifier="a-peer-0123456789")
        assert [nameless["status"], first["status"], second["status"]] == [400, 200, 409]
        server.payments.assert_charged(times=1, amount=AMOUNTS[0])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_settlement_that_fails(client: str, buyers: Buyers, payer: Payer) -> None:
    with MockServer() as server:
        server.add_fault("settlement", reason="transaction_failed")
        (one,) = buy(buyers, client, server, payer)
        assert one["status"] == 402
        assert one["body"] == {}
        assert one["error"] is None
        assert one["receipt"]["success"] is False
        assert one["receipt"]["errorReason"] == "transaction_failed"
        assert one["receipt"]["transaction"] == ""
        server.payments.assert_charged(times=0)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_service_clock_decides(client: str, buyers: Buyers, payer: Payer) -> None:
    """The official clients sign by their own clock. Where the service is ahead, their payment has expired."""
    with MockServer() as server:
        server.clock.advance(3_600)
        (one,) = buy(buyers, client, server, payer)
        assert one["status"] == 402
        assert one["error"] == "invalid_exact_evm_payload_authorization_valid_before"
        server.payments.assert_charged(times=0)
