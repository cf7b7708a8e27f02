"""An account at Coinbase pays our mock: Coinbase's package cdp-sdk, and the class that docs/payment-safety.md shows.

`CdpClient` has an argument for the address that it asks (`base_path`): here it is a server on the loopback, which
checks the tokens of each request, and whose key really signs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tradesdk_mock import MockServer

from .._pages import ROOT, blocks
from ._programs import Program
from .environments import python_in

(SHOWN,) = (each.text for each in blocks(ROOT / "docs" / "payment-safety.md") if "class CdpSigner" in each.text)
LOCAL = None  # Coinbase's own `EvmLocalAccount`
FIRST = ["GET /by-name/market-data", "POST "]
HASH, TYPED_DATA = "POST /ADDRESS/sign", "POST /ADDRESS/sign/typed-data"
ONE, THREE = ["ETH"], ["ETH", "BRETT", "TOSHI"]
PRICE = 20_000

# Who signs, in which of our clients, for which tokens; what Coinbase is asked to sign; and what comes of it, if that is
# no purchase. The account's policy allows two tokens: it sees typed data, and no hashes.
ROWS: dict[str, tuple[str | None, str, list[str], list[str], dict[str, Any]]] = {
    "the class": (SHOWN, "async", ONE, [HASH, TYPED_DATA], {}),
    "the class, in a blocking client": (SHOWN, "blocking", ONE, [], {"code": "invalid_signer"}),
    "the class, over the policy": (
        SHOWN,
        "async",
        THREE,
        [HASH, TYPED_DATA],
        {"code": "signer_failed", "charged": False},
    ),
    "EvmLocalAccount": (LOCAL, "async", ONE, [HASH, HASH], {}),
    "EvmLocalAccount, in a blocking client": (LOCAL, "blocking", ONE, [HASH, HASH], {}),
    "EvmLocalAccount, over the policy": (LOCAL, "blocking", THREE, [HASH, HASH], {}),
}


@pytest.mark.peers
def test_an_account_connects_and_buys(environment: Callable[[str], Path]) -> None:
    """In one test, as the package takes seconds to import."""
    with Program(python_in(environment("coinbase")), "-m", "programs.client_coinbase") as program:
        for name, (signer, flavour, tokens, asked, expected) in ROWS.items():
            with MockServer() as mock:
                told = program.ask({"url": mock.url, "flavour": flavour, "signer": signer, "tokens": tokens})
                assert told.pop("asked") == FIRST + asked, name
                if expected:
                    mock.payments.assert_charged(times=0)
                    assert told.items() >= expected.items(), name
                else:
                    (settled,) = mock.payments.assert_charged(times=1, amount=PRICE * len(tokens))
                    assert told == {"wallet": settled.payer, "payer": settled.payer, "proven": True}, name
