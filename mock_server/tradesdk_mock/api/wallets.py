"""GET and POST /v1/wallets, GET /v1/wallets/{wallet_id}/balance"""

from __future__ import annotations

from typing import Any

from ..core.errors import conflict, unacceptable
from ..core.messages import Response
from ..core.seeding import EVM_ADDRESS, checksum_address, ident
from ..payments import wallet_proof
from ..trading.balances import balance_record, initial_native
from .context import Context, Endpoint, Routes
from .pagination import page
from .validation import check_chain, check_text

COLUMNS = ("id", "address", "chain_id", "label", "created_at")


def listing(call: Context) -> Response:
    query = call.query()
    filters = {"tenant": call.tenant, "chain_id": query.chain("chain_id", required=False)}
    return page(call, query, table="wallets", columns=COLUMNS, time="created_at", filters=filters)


def connect(call: Context) -> Response:
    gaps, store = call.world.gaps, call.world.store
    from .bodies import ConnectWalletBody, read_body

    body = read_body(call, ConnectWalletBody)
    chain = check_chain(body.chain_id, "chain_id", gaps)
    check_text(body.label, "label")
    if not EVM_ADDRESS.fullmatch(body.address):
        raise unacceptable("address", "not an EVM address")
    address = checksum_address(body.address)
    wallet_proof.verify(address, wallet_proof.wallet_message(address, chain, gaps.wallet_message), body.signature)
    status = int(gaps.write_status[:3])
    known = store.rows(
        COLUMNS, "wallets WHERE tenant = ? AND address = ? AND chain_id = ?", (call.tenant, address, chain)
    )
    if known:
        if gaps.wallet_twice == "409":
            raise conflict("This wallet is connected already.")
        return Response(status, call.with_unknown(known[0]))
    record: dict[str, Any] = {
        "id": ident("wal", call.world.seed, call.tenant, store.next(call.tenant, "wallet")),
        "address": address,
        "chain_id": chain,
        "label": body.label,
        "created_at": int(call.now),
    }
    native = initial_native(call.world.seed, record["id"], chain)
    store.add("wallets", **record, tenant=call.tenant, native=native, moved_at=record["created_at"])
    return Response(status, call.with_unknown(record))


def balance(call: Context) -> Response:
    wallet = call.owned("wallet", COLUMNS)
    record = balance_record(call.world, wallet["id"], wallet["chain_id"], wallet["created_at"], int(call.now))
    record["token_balances"] = [call.with_unknown(item) for item in record["token_balances"]]
    return Response(200, call.with_unknown(record))


def remove(call: Context) -> Response:
    """Under the gap option `no_routes=routes`: 204, or 409 while an agent uses it or it holds tokens."""
    wallet_id = call.owned("wallet", ("id",))["id"]
    store = call.world.store
    if store.value("SELECT 1 FROM agents WHERE tenant = ? AND wallet_id = ?", (call.tenant, wallet_id)):
        raise conflict("Agents are bound to this wallet; delete them or bind them to another one before removing it.")
    if store.value("SELECT 1 FROM positions WHERE wallet_id = ?", (wallet_id,)):
        raise conflict("Positions are open with tokens of this wallet; it can be removed when they are closed.")
    store.run("DELETE FROM wallets WHERE id = ? AND tenant = ?", (wallet_id, call.tenant))
    return Response(204)


ROUTES: Routes = {
    "/v1/wallets": {
        "GET": Endpoint(listing),
        "POST": Endpoint(connect, needs="write"),
    },
    "/v1/wallets/{wallet_id}": {"DELETE": Endpoint(remove, needs="write", option=True, trading=True)},
    "/v1/wallets/{wallet_id}/balance": {"GET": Endpoint(balance, trading=True)},
}
