"""No dead end in the first hour: under every value of every gap option, and with every kind of wallet."""

from __future__ import annotations

import pytest

from tradesdk_mock import GapOptions

from ._first_purchase import Case, cases, outcome

pytestmark = pytest.mark.long

CASES = list(cases())
ENDS = {"paywall=open": "free", "delegated_payers=refused": "nothing helps: another wallet"}
"""How it ends where it is not a proven purchase."""
TOLD = {
    "b_bearer=required": ["send_api_key=True"],
    "b_port=another": ["send_api_key=True", "TRADE_MARKET_BASE_URL"],
    "clock_skew=600": ["correct this machine's clock"],
    "flow=upfront": ["allow_upfront=True"],
    "an offer in the body, paid upfront": ["allow_upfront=True"],
    "payer_balance=0": ["add USDC on Base to 0x"],
    "wallet: empty": ["add USDC on Base to 0x"],
    "wallet: contract": ["is_contract = True"],
    "wallet: contract to be deployed": ["is_contract = True"],
    "wallet_message=I own {address} on chain {chain_id}": ["message="],
    "delegated_payers=refused": ["pay with another wallet"],
}
"""What the errors name, one after the other; everything else needs nothing."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_ends_in_a_purchase_or_says_what_to_set(case: Case) -> None:
    found = outcome(case)
    assert not found.is_dead_end, found
    assert found.ends == ENDS.get(case.name, "proven"), found
    names = TOLD.get(case.name.removesuffix(", with a node"), [])
    assert len(found.told) == len(names), found
    for sentence, name in zip(found.told, names, strict=True):
        assert name in sentence


def test_every_value_is_a_case() -> None:
    names = {case.name for case in CASES}
    for gap in GapOptions.describe():
        assert {f"{gap.name}={other}" for other in gap.others} <= names
    assert set(ENDS) | set(TOLD) <= names


def test_what_the_doctor_sees() -> None:
    """The option that was set, where answers show it; with an empty wallet as well."""
    seen = {
        "offer_in=body": "offer_in",
        "offer_in=both": "offer_in",
        "reason_in=body": "reason_in",
        "flow=both": "flow",
    }
    for case in CASES:
        if case.name in seen:
            assert outcome(case).doctor == seen[case.name]
        elif case.name.startswith("wallet:"):
            assert outcome(case).doctor == "like the mock"
