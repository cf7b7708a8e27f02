"""An account at Coinbase pays our mock: Coinbase's package cdp-sdk, and the class that docs/payment-safety.md shows.

`CdpClient` has an argument for the address that it asks (`base_path`): here it is a server on the loopback, which
checks the tokens of each request, and whose key really signs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk_mock import MockServer

from .._pages import ROOT, blocks
from ._programs import Program
from .environments import python_in

pytestmark = pytest.mark.peers

(SHOWN,) = (each.text for each in blocks(ROOT / "docs" / "payment-safety.md") if "class CdpSigner" in each.text)
LOCAL = None
FIRST = ["GET /by-name/market-data", "POST "]
HASH, TYPED_DATA = "POST /ADDRESS/sign", "POST /ADDRESS/sign/typed-data"
PRICE = 20_000


@pytest.fixture(scope="module")
def program(environment: Callable[[str], Path]) -> Iterator[Program]:
    with Program(python_in(environment("coinbase")), "-m", "programs.client_coinbase") as program:
        yield program


def bought(program: Program, mock: MockServer, flavour: str, signer: str | None, *tokens: str) -> Any:
    return program.ask({"url": mock.url, "flavour": flavour, "signer": signer, "tokens": tokens or ("ETH",)})


@pytest.mark.parametrize(
    ("flavour", "signer", "asked"),
    [
        pytest.param("async", SHOWN, [HASH, TYPED_DATA], id="the class, async"),
        pytest.param("async", LOCAL, [HASH, HASH], id="EvmLocalAccount, async"),
        pytest.param("blocking", LOCAL, [HASH, HASH], id="EvmLocalAccount, blocking"),
    ],
)
def test_an_account_connects_and_buys(program: Program, flavour: str, signer: str | None, asked: list[str]) -> None:
    with MockServer() as mock:
        told = bought(program, mock, flavour, signer)
        (settled,) = mock.payments.assert_charged(times=1, amount=PRICE)
        assert told == {"wallet": settled.payer, "payer": settled.payer, "proven": True, "asked": FIRST + asked}


def test_the_class_in_a_blocking_client_is_refused_by_name(program: Program) -> None:
    with MockServer() as mock:
        told = bought(program, mock, "blocking", SHOWN)
        assert (told["code"], told["asked"]) == ("invalid_signer", FIRST)
        assert told["message"].startswith("the signer is async, and this client is blocking: use AsyncMarketClient")
        mock.payments.assert_not_charged()


def test_a_policy_at_coinbase_sees_what_a_payment_costs(program: Program) -> None:
    """It refuses the third token. `EvmLocalAccount` has hashes signed, and no policy sees them."""
    tokens = ("ETH", "BRETT", "TOSHI")
    with MockServer() as mock:
        told = bought(program, mock, "async", SHOWN, *tokens)
        assert (told["code"], told["charged"], told["asked"]) == ("signer_failed", False, [*FIRST, HASH, TYPED_DATA])
        mock.payments.assert_not_charged()
        assert bought(program, mock, "async", LOCAL, *tokens)["proven"] is True
        mock.payments.assert_charged(times=1, amount=3 * PRICE)
