"""Tokens and their prices: functions of the seed and the time, and nothing else."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock
from tradesdk_mock.market.price_model import Prices, prices
from tradesdk_mock.market.tokens import ETHER_ADDRESS, Token, find, lively, tokens
from tradesdk_mock.state.world import World

from ._support import START

MARKET = prices(7)
CHAINS = [(8453, 620, 60), (56, 20, 20)]


@pytest.mark.parametrize(("chain_id", "every", "live"), CHAINS)
def test_how_many_there_are(chain_id: int, every: int, live: int) -> None:
    found = tokens(7, chain_id)
    assert len(found) == every
    assert found[:live] == lively(7, chain_id)
    assert {token.chain_id for token in found} == {chain_id}


@pytest.mark.parametrize(("chain_id", "every", "live"), CHAINS)
def test_a_name_means_one_token(chain_id: int, every: int, live: int) -> None:
    found = tokens(7, chain_id)
    names = [name for token in found for name in {token.symbol.lower(), token.coin_id.lower(), token.address.lower()}]
    assert len(set(names)) == len(names)
    for each in ("pool_address", "logo", "market_cap_rank", "name"):
        assert len({getattr(token, each) for token in found}) == every, each
    for token in found:
        for name in (token.symbol, token.coin_id, token.address):
            for spelled in (name, name.lower(), name.upper()):
                assert find(7, chain_id, spelled) is token
    assert find(7, chain_id, "no such token") is None
    assert find(7, chain_id, "") is None


def test_a_token_of_one_chain_is_none_of_the_other() -> None:
    assert find(7, 8453, "CAKE") is None
    assert find(7, 56, "BRETT") is None
    assert not {token.address for token in tokens(7, 8453)} & {token.address for token in tokens(7, 56)}


@pytest.mark.parametrize("chain_id", [8453, 56])
def test_every_address_carries_its_checksum(chain_id: int) -> None:
    for token in tokens(7, chain_id):
        assert token.address == to_checksum_address(token.address)
        assert token.pool_address == to_checksum_address(token.pool_address)


def test_another_seed_has_other_addresses_but_the_same_names() -> None:
    one, two = tokens(1, 8453), tokens(2, 8453)
    assert [token.symbol for token in one] == [token.symbol for token in two]
    assert [token.address for token in one if token in two] == []
    shared = {token.address for token in one} & {token.address for token in two}
    assert shared == {ETHER_ADDRESS}


def test_ether_is_a_token_of_base_that_nobody_signals() -> None:
    ether = find(7, 8453, "ethereum")
    assert ether is not None
    assert (ether.symbol, ether.address, ether.market_cap_rank) == ("ETH", ETHER_ADDRESS, 2)
    assert ether not in lively(7, 8453)
    assert MARKET.eth(ether, START) == 1.0
    assert MARKET.usd(ether, START) == MARKET.rate(START)


def test_a_larger_market_has_a_smaller_rank() -> None:
    found = sorted(tokens(7, 8453), key=lambda token: token.market_cap_rank)
    caps = [token.market_cap for token in found]
    assert caps == sorted(caps, reverse=True)
    assert caps[-1] > 0
    assert all(token.logo.startswith("https://") and token.logo.endswith(".png") for token in found)


@settings(deadline=None)
@given(token=st.sampled_from(tokens(7, 8453) + tokens(7, 56)), at=st.floats(0, 1e11) | st.integers(0, 10**11))
def test_a_price_is_near_the_table(token: Token, at: float) -> None:
    price = MARKET.usd(token, at)
    assert 0.25 < price / token.price_usd < 4
    assert price == pytest.approx(MARKET.eth(token, at) * MARKET.rate(at), rel=1e-7)
    assert price == MARKET.usd(token, at)


def test_a_price_moves() -> None:
    brett = tokens(7, 8453)[1]

    def hourly(of: Prices) -> list[float]:
        return [of.usd(brett, START + 3_600 * hour) for hour in range(24 * 30)]

    moves = [math.log(after / before) for before, after in pairwise(hourly(MARKET))]
    assert 0.01 < max(map(abs, moves)) < 0.1
    assert max(hourly(MARKET)) / min(hourly(MARKET)) > 1.1
    assert len(set(hourly(MARKET))) == len(moves) + 1
    assert hourly(MARKET) != hourly(prices(8))


def test_tokens_swing_each_in_its_own_time() -> None:
    day = {token.symbol: MARKET.eth(token, START + 86_400) / MARKET.eth(token, START) for token in lively(7, 8453)}
    assert len(set(day.values())) == 60
    assert any(move > 1 for move in day.values())
    assert any(move < 1 for move in day.values())


def test_prices_can_be_made_to_fail() -> None:
    world = World(clock=MockClock(START))
    brett = tokens(7, 8453)[1]
    assert world.price_failure() is False
    world.set_price_failure([brett.address.upper(), "based-brett"])
    assert world.price_failure() == ["BRETT"]
    world.set_price_failure(False)
    assert world.price_failure() is False
    world.set_price_failure(True)
    assert world.price_failure() is True
    world.reset()
    assert world.price_failure() is False
    world.close()


@pytest.mark.parametrize("wrong", [["NOPE"], ["CAKE"], [""], [3], [None], [["BRETT"]], ["BRETT", "x" * 1_000]])
def test_prices_of_unknown_tokens_can_not_fail(wrong: list[str]) -> None:
    world = World(clock=MockClock(START))
    world.set_price_failure(["BRETT"])
    with pytest.raises(ValueError, match=r"^price_failure: there is no token .{0,90} on Base$"):
        world.set_price_failure(wrong)
    assert world.price_failure() == ["BRETT"]
    world.close()
