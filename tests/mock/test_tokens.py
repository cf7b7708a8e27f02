"""The tokens of both chains: functions of the seed and nothing else; and those whose prices can be made to fail."""

from __future__ import annotations

from eth_utils.address import to_checksum_address

from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import ETHER_ADDRESS, find, lively, tokens

from .._rows import each_of
from ._http import START


@each_of(("chain_id", "every", "live"), [(8453, 620, 60), (56, 20, 20)])
def test_the_tokens_of_a_chain(chain_id: int, every: int, live: int) -> None:
    """A name means one token; every address carries its checksum."""
    found = tokens(7, chain_id)
    assert len(found) == every
    assert found[:live] == lively(7, chain_id)
    names = [name for token in found for name in {token.symbol.lower(), token.coin_id.lower(), token.address.lower()}]
    assert len(set(names)) == len(names)
    for each in ("pool_address", "logo", "market_cap_rank", "name"):
        assert len({getattr(token, each) for token in found}) == every, each
    for token in found:
        assert token.chain_id == chain_id
        assert token.address == to_checksum_address(token.address)
        assert token.pool_address == to_checksum_address(token.pool_address)
        assert token.logo.startswith("https://")
        assert token.logo.endswith(".png")
        for name in (token.symbol, token.coin_id, token.address):
            for spelled in (name, name.lower(), name.upper()):
                assert find(7, chain_id, spelled) == token
    assert find(7, chain_id, "no such token") is find(7, chain_id, "") is None
    # A larger market has a smaller rank.
    caps = [token.market_cap for token in sorted(found, key=lambda token: token.market_cap_rank)]
    assert caps == sorted(caps, reverse=True)
    assert caps[-1] > 0


def test_a_token_of_one_chain_is_none_of_the_other() -> None:
    assert find(7, 8453, "CAKE") is find(7, 56, "BRETT") is None
    assert not {token.address for token in tokens(7, 8453)} & {token.address for token in tokens(7, 56)}


def test_another_seed_has_other_addresses_but_the_same_names() -> None:
    one, two = tokens(1, 8453), tokens(2, 8453)
    assert [token.symbol for token in one] == [token.symbol for token in two]
    assert not set(one) & set(two)
    assert {token.address for token in one} & {token.address for token in two} == {ETHER_ADDRESS}


def test_ether_is_a_token_of_base_that_nobody_signals() -> None:
    ether = find(7, 8453, "ethereum")
    assert ether is not None
    assert (ether.symbol, ether.address, ether.market_cap_rank) == ("ETH", ETHER_ADDRESS, 2)
    assert ether not in lively(7, 8453)
    assert prices(7).eth(ether, START) == 1.0
    assert prices(7).usd(ether, START) == prices(7).rate(START)
