"""The message that a wallet signs, and the balance that it begins with.

What trades leave of it: the ledger's tests. The rules: tests/contract/test_service_wallets.
"""

from __future__ import annotations

import httpx
import pytest

from tradesdk_mock import MockService, wallet_message

from ._http import OWNER, START, add_wallet, error, ok


def test_the_message_is_exactly_this() -> None:
    assert wallet_message(OWNER.address.lower(), 56) == (
        f"Trade wallet verification\nAddress: {OWNER.address}\nChain ID: 56"
    )


@pytest.mark.parametrize(("chain_id", "low", "high"), [(8453, 0.2, 4.0), (56, 2.0, 20.0)])
def test_a_new_wallet_has_some_of_the_native_asset_and_is_refreshed_by_the_minute(
    server: MockService, api: httpx.Client, chain_id: int, low: float, high: float
) -> None:
    server.clock.advance(15)
    path = f"/v1/wallets/{add_wallet(api, chain_id)}/balance"
    first = ok(api.get(path))
    assert list(first) == ["wallet_id", "native_balance_usd", "token_balances", "updated_at"]
    assert first["updated_at"] == START + 15
    assert first["token_balances"] == [], "nothing was bought yet"
    server.clock.advance(40)
    assert ok(api.get(path)) == first, "not refreshed yet"
    server.clock.advance(10)
    second = ok(api.get(path))
    assert second["updated_at"] == START + 60
    units = [
        each["native_balance_usd"] / server.world.prices.native_usd(chain_id, each["updated_at"])
        for each in (first, second)
    ]
    assert units[1] == pytest.approx(units[0], rel=1e-4)
    assert low <= units[0] <= high
    assert second["native_balance_usd"] != first["native_balance_usd"]
    server.clock.set(START - 100, allow_backwards=True)
    assert ok(api.get(path))["updated_at"] == START - 100, "never a time to come"


def test_a_wallet_with_tokens_is_not_removed(server: MockService, rich: httpx.Client) -> None:
    server.set_gaps(no_routes="routes")
    position = ok(rich.get("/v1/positions"))["data"][0]
    wallet_id = ok(rich.get(f"/v1/agents/{position['agent_id']}"))["wallet_id"]
    server.world.store.run("UPDATE agents SET wallet_id = 'wal_other'")
    assert "Positions are open" in error(rich.delete(f"/v1/wallets/{wallet_id}"), 409, "conflict")
    spare = add_wallet(rich)
    assert rich.delete(f"/v1/wallets/{spare}").status_code == 204


def test_two_amounts_of_a_token_are_added_as_people_do(server: MockService, api: httpx.Client) -> None:
    """0.1 and 0.2 are 0.3."""
    wallet, ids = add_wallet(api), ("id", "trade_id", "agent_id")
    text = {"tenant": "me", "wallet_id": wallet, "token_symbol": "BRETT", "chain_id": 8453}
    text["token_address"] = server.emit_signal(token="BRETT").token_address
    times = dict.fromkeys(("peak_at", "opened_at"), START)
    prices = ("entry_price_usd", "stop_loss_price", "take_profit_price", "trailing_pct", "peak")
    for amount in (0.1, 0.2):
        numbers = {"amount": amount, **dict.fromkeys(prices, 1.0)}
        server.world.store.add("positions", **dict.fromkeys(ids, str(amount)), **text, **times, **numbers)
    (held,) = ok(api.get(f"/v1/wallets/{wallet}/balance"))["token_balances"]
    assert held["balance"] == 0.3
