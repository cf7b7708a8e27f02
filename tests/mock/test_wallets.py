"""Wallets: proof by signature, lists, balances."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from eth_utils.address import is_checksum_address

from tradesdk_mock import MockServer, wallet_message
from tradesdk_mock.market.tokens import find, lively
from tradesdk_mock.trading.balances import initial_native

from ._support import OTHER, OWNER, START, add_wallet, connection, error, ok, sign, walk

FIELDS = ["id", "address", "chain_id", "label", "created_at"]


def test_the_message_is_exactly_this() -> None:
    assert wallet_message(OWNER.address.lower(), 56) == (
        f"Trade wallet verification\nAddress: {OWNER.address}\nChain ID: 56"
    )


def test_connect(api: httpx.Client) -> None:
    wallet = ok(api.post("/v1/wallets", json=connection(label="Main ✓")), 201)
    assert list(wallet) == FIELDS
    assert wallet == {
        "id": wallet["id"],
        "address": OWNER.address,
        "chain_id": 8453,
        "label": "Main ✓",
        "created_at": START,
    }
    assert wallet["id"].startswith("wal_")
    assert ok(api.get("/v1/wallets")) == {"data": [wallet]}


def test_the_address_may_be_spelled_in_lower_case(api: httpx.Client) -> None:
    body = connection()
    body["address"] = body["address"].lower()
    assert ok(api.post("/v1/wallets", json=body), 201)["address"] == OWNER.address


def test_the_recovery_byte_may_be_0_or_27(api: httpx.Client) -> None:
    body = connection()
    last = int(body["signature"][-2:], 16)
    assert last in (27, 28)
    body["signature"] = body["signature"][:-2] + f"{last - 27:02X}"
    ok(api.post("/v1/wallets", json=body), 201)


_GOOD = connection()["signature"]
# The twin of a signature: the same curve point, mirrored. It proves as much, but no signer makes it.
_MIRRORED_S = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141 - int(_GOOD[66:130], 16)
_MIRRORED_V = 55 - int(_GOOD[130:], 16)

SIGNATURES = {
    "somebody else's": sign(wallet_message(OWNER.address, 8453), OTHER),
    "another chain's": sign(wallet_message(OWNER.address, 56)),
    "another address's": sign(wallet_message(OTHER.address, 8453)),
    "another text's": sign("Trade wallet verification"),
    "empty": "",
    "no hex": "0x" + "zz" * 65,
    "short": "0x" + "00" * 64,
    "long": "0x" + "00" * 66,
    "zeros": "0x" + "00" * 65,
    "no point": "0x" + "ff" * 64 + "1b",
    "bad recovery": "0x" + "11" * 64 + "63",
    "no prefix": _GOOD[2:],
    "newline": _GOOD + "\n",
    "high s": f"{_GOOD[:66]}{_MIRRORED_S:064x}{_MIRRORED_V:02x}",
    "high s, low byte": f"{_GOOD[:66]}{_MIRRORED_S:064x}{_MIRRORED_V - 27:02x}",
    **{f"byte {v}": f"{_GOOD[:130]}{v:02x}" for v in (2, 3, 26, 29, 35, 36, 37, 38, 127, 128, 255)},
}


@pytest.mark.parametrize("kind", SIGNATURES)
def test_signatures_that_prove_nothing(api: httpx.Client, kind: str) -> None:
    body = {**connection(), "signature": SIGNATURES[kind]}
    error(api.post("/v1/wallets", json=body), 400, "invalid_signature")
    assert ok(api.get("/v1/wallets")) == {"data": []}


@pytest.mark.parametrize(
    ("fields", "status", "code", "named"),
    [
        ({"address": "0x12"}, 422, "validation_error", "address"),
        ({"address": "me"}, 422, "validation_error", "address"),
        ({"address": ""}, 422, "validation_error", "address"),
        ({"chain_id": 1}, 422, "validation_error", "chain_id"),
        ({"label": ""}, 422, "validation_error", "label"),
        ({"address": 5}, 400, "invalid_request", "address"),
        ({"address": None}, 400, "invalid_request", "address"),
        ({"chain_id": "8453"}, 400, "invalid_request", "chain_id"),
        ({"chain_id": True}, 400, "invalid_request", "chain_id"),
        ({"label": 5}, 400, "invalid_request", "label"),
        ({"signature": 5}, 400, "invalid_request", "signature"),
        ({"signature": None}, 400, "invalid_request", "signature"),
    ],
)
def test_what_else_can_be_wrong(api: httpx.Client, fields: dict[str, Any], status: int, code: str, named: str) -> None:
    message = error(api.post("/v1/wallets", json={**connection(), **fields}), status, code)
    assert message.startswith(f"{named}: ")


def test_a_wallet_is_connected_once_for_each_chain(api: httpx.Client) -> None:
    add_wallet(api)
    add_wallet(api, 56)
    error(api.post("/v1/wallets", json=connection()), 409, "conflict")
    error(api.post("/v1/wallets", json={**connection(), "signature": "0x"}), 400, "invalid_signature")
    assert [wallet["chain_id"] for wallet in ok(api.get("/v1/wallets"))["data"]] == [56, 8453]
    assert [wallet["chain_id"] for wallet in walk(api, "/v1/wallets", chain_id=56)] == [56]
    assert [wallet["chain_id"] for wallet in walk(api, "/v1/wallets", limit=1)] == [56, 8453]


def test_chain_filter(api: httpx.Client) -> None:
    assert error(api.get("/v1/wallets?chain_id=1"), 422, "validation_error").startswith("chain_id: ")
    assert error(api.get("/v1/wallets?chain_id=base"), 400, "invalid_request").startswith("chain_id: ")


def test_balance_and_its_refresh(server: MockServer, api: httpx.Client) -> None:
    server.clock.advance(15)
    wallet = add_wallet(api)
    path = f"/v1/wallets/{wallet}/balance"
    first = ok(api.get(path))
    assert list(first) == ["wallet_id", "native_balance_usd", "token_balances", "updated_at"]
    assert (first["wallet_id"], first["updated_at"]) == (wallet, START + 15)
    assert isinstance(first["native_balance_usd"], float)
    assert first["token_balances"] == [], "nothing was bought yet"
    server.clock.advance(40)
    assert ok(api.get(path)) == first, "not refreshed yet"
    server.clock.advance(10)
    second = ok(api.get(path))
    assert second["updated_at"] == START + 60
    assert second["native_balance_usd"] != first["native_balance_usd"]
    ether = first["native_balance_usd"] / server.world.prices.rate(START + 15)
    assert 0.2 <= ether <= 4
    assert second["native_balance_usd"] == pytest.approx(ether * server.world.prices.rate(START + 60), abs=0.02)
    server.clock.set(START - 100, allow_backwards=True)
    assert ok(api.get(path))["updated_at"] == START - 100, "never a time to come"


@pytest.mark.parametrize(("chain_id", "low", "high"), [(8453, 0.2, 4.0), (56, 2.0, 20.0)])
def test_what_wallets_begin_with(chain_id: int, low: float, high: float) -> None:
    found = [initial_native(seed, f"wal_{seed}", chain_id) for seed in range(200)]
    assert all(low <= each <= high for each in found)
    assert max(found) - min(found) > 0.8 * (high - low)
    assert found == [initial_native(seed, f"wal_{seed}", chain_id) for seed in range(200)]


def test_balances_are_what_the_trades_left(server: MockServer, rich: httpx.Client) -> None:
    """Tokens of the open trades, and the native money that a wallet began with, less purchases, plus sales."""
    world = server.world
    held = 0
    for minutes in (0, 1, 60, 24 * 60):
        server.clock.advance(60 * minutes + 7)
        now = int(server.clock.now())
        for wallet in walk(rich, "/v1/wallets"):
            balance = ok(rich.get(f"/v1/wallets/{wallet['id']}/balance"))
            chain, at = wallet["chain_id"], balance["updated_at"]
            assert now - 60 < at <= now
            native = initial_native(world.seed, wallet["id"], chain)
            tokens: dict[str, float] = {}
            for address, amount, entry, opened_at, price, closed_at in world.store.all(
                "SELECT token_address, amount, entry_price_usd, opened_at, exit_price_usd, closed_at FROM trades"
                " WHERE wallet_id = ?",
                (wallet["id"],),
            ):
                native -= entry * amount / world.prices.native_usd(chain, opened_at)
                if closed_at is None:
                    tokens[address] = tokens.get(address, 0.0) + amount
                else:
                    native += price * amount / world.prices.native_usd(chain, closed_at)
            assert native > 0
            usd = native * world.prices.native_usd(chain, at)
            assert balance["native_balance_usd"] == pytest.approx(usd, abs=0.0051)
            assert [item["token_address"] for item in balance["token_balances"]] == sorted(tokens)
            for item in balance["token_balances"]:
                assert list(item) == ["token_address", "token_symbol", "balance", "balance_usd"]
                assert is_checksum_address(item["token_address"])
                assert re.fullmatch("[A-Z0-9]+", item["token_symbol"])
                assert item["balance"] == pytest.approx(tokens[item["token_address"]], rel=1e-12)
                token = find(world.seed, chain, item["token_address"])
                assert token is not None
                worth = item["balance"] * world.prices.usd(token, at)
                assert item["balance_usd"] == pytest.approx(worth, abs=0.0051)
                held += 1
    assert held > 8


def test_reading_a_balance_changes_nothing(server: MockServer, rich: httpx.Client) -> None:
    paths = [f"/v1/wallets/{wallet['id']}/balance" for wallet in walk(rich, "/v1/wallets")]
    first = [ok(rich.get(path)) for path in paths]
    kept = server.world.store.all("SELECT * FROM wallets ORDER BY seq")
    assert [ok(rich.get(path)) for path in paths] == first
    assert server.world.store.all("SELECT * FROM wallets ORDER BY seq") == kept


def test_a_balance_is_refreshed_when_money_moves(server: MockServer, rich: httpx.Client) -> None:
    """A purchase within the minute shows at once, with its second."""
    server.clock.advance(3_600 - START % 3_600 + 1)
    shown = set()
    for _ in range(300):
        server.clock.advance(7)
        now = int(server.clock.now())
        for (wallet_id,) in server.world.store.all("SELECT id FROM wallets"):
            balance = ok(rich.get(f"/v1/wallets/{wallet_id}/balance"))
            (moved_at,) = server.world.store.all("SELECT moved_at FROM wallets WHERE id = ?", (wallet_id,))[0]
            assert balance["updated_at"] == max(now - now % 60, moved_at)
            shown.add(balance["updated_at"] % 60 != 0)
        if shown == {True, False}:
            break
    assert shown == {True, False}


def test_a_wallet_with_tokens_is_not_removed(server: MockServer, rich: httpx.Client) -> None:
    server.set_gaps(no_routes="routes")
    position = ok(rich.get("/v1/positions"))["data"][0]
    wallet_id = ok(rich.get(f"/v1/agents/{position['agent_id']}"))["wallet_id"]
    server.world.store.run("UPDATE agents SET wallet_id = 'wal_other'")
    assert "Positions are open" in error(rich.delete(f"/v1/wallets/{wallet_id}"), 409, "conflict")
    spare = add_wallet(rich)
    assert rich.delete(f"/v1/wallets/{spare}").status_code == 204


def test_two_amounts_of_a_token_are_added_as_people_do(server: MockServer, api: httpx.Client) -> None:
    wallet, token = add_wallet(api), lively(server.world.seed, 8453)[0]
    with server.world.transaction():
        for place, amount in enumerate((0.1, 0.2)):
            server.world.store.add(
                "positions",
                id=f"pos_{place}",
                trade_id=f"trd_{place}",
                tenant="me",
                agent_id=f"agt_{place}",
                wallet_id=wallet,
                token_address=token.address,
                token_symbol=token.symbol,
                chain_id=8453,
                amount=amount,
                entry_price_usd=1.0,
                stop_loss_price=0.9,
                take_profit_price=1.1,
                trailing_pct=2.0,
                peak=1.0,
                peak_at=START,
                opened_at=START,
            )
    (held,) = ok(api.get(f"/v1/wallets/{wallet}/balance"))["token_balances"]
    assert held["balance"] == 0.3
