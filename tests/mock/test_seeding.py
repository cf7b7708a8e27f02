"""Ids, addresses and random numbers: what follows from a seed."""

from __future__ import annotations

import pytest

from tradesdk_mock import MockClock, MockService
from tradesdk_mock.core.seeding import SeededRandom, address, checksum_address, digest, ident

from .._rows import each_of
from ._http import START, add_agent, add_wallet, in_process, walk


def test_ids_are_unique_across_kinds_and_tenants() -> None:
    found: list[str] = []
    with MockService(clock=MockClock(START)) as mock:
        for tenant in ("a", "a_b"):
            mock.populate(tenant)
            with in_process(mock, f"mock_full_{tenant}") as http:
                for path in ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions"):
                    found += [item["id"] for item in walk(http, path, limit=100)]
                found += [add_agent(http, add_wallet(http, 56), chain_id=56)["id"]]
    assert len(found) == len(set(found)) == 2 * (6 + 2 + 250 + 8 + 1)


@each_of(
    "spelled",
    [
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0xde709f2102306220921060314715629080e2fb77",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    ],
)
def test_checksums_of_the_standard(spelled: str) -> None:
    assert checksum_address(spelled.lower()) == spelled
    assert checksum_address(spelled.upper().replace("0X", "0x")) == spelled


def test_parts_of_an_id_can_not_be_confused() -> None:
    assert digest(1, "a", "bc") != digest(1, "ab", "c")
    assert ident("agt", 1, "t", 12) != ident("agt", 11, "t", 2)
    assert address(1, "x") != address(2, "x")


def test_numbers_stay_in_range_and_run_out() -> None:
    rng = SeededRandom(1, "test", draws=200)
    units = [rng.unit() for _ in range(100)]
    assert all(0 <= unit < 1 for unit in units)
    assert 0.35 < sum(units) / 100 < 0.65
    assert {rng.below(3) for _ in range(50)} == {0, 1, 2}
    assert all(5 <= rng.between(5, 6) < 6 for _ in range(50))
    with pytest.raises(IndexError):
        rng.unit()
