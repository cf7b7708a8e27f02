"""What a buyer of market data has to hide: the wallet key, every signed payment, a keystore's password."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tradesdk import (
    AsyncChainWitness,
    AsyncMarketClient,
    Budget,
    ChainWitness,
    Ledger,
    LocalSigner,
    MarketClient,
    create_keystore,
    keystore_address,
)
from tradesdk.payments.ledger.changes import LedgerRow, Submit

from ._secrets import TLS, WALLET_KEY, Place, Seen, answers, scenario


class Watched(Ledger):
    """A ledger that adds every payment to what must not be shown; when one is final, the ledger forgets its header."""

    seen: Seen

    def submit(self, change: Submit) -> LedgerRow | None:
        header = change.header
        content = base64.b64decode(header)
        signature = json.loads(content)["payload"]["signature"]
        inside = base64.b64encode(content[48:96]).decode()  # some digits of the signature
        assert inside in header
        self.seen.secrets += [inside, signature[2:].upper(), signature[20:60]]  # header and signature hold one of them
        return super().submit(change)


def watched(seen: Seen, path: Path | None = None) -> Watched:
    ledger = Watched.memory() if path is None else Watched(path)
    assert isinstance(ledger, Watched)
    ledger.seen = seen
    return ledger


def market_settings(place: Place, ledger: Ledger, **more: Any) -> dict[str, Any]:
    server = place.server
    signer = LocalSigner.from_key(WALLET_KEY)
    own = {
        "signer": signer,
        "budget": Budget(total="5"),
        "ledger": ledger,
        "base_url": server.url,
        "clock": server.clock,
    }
    return own | {"send_api_key": True, "api_key": place.key} | more


@scenario
def market_data(seen: Seen, place: Place) -> None:
    """Everything that is to be had of a purchase."""
    file = place.trade.home / "ledger.sqlite3"
    ledger = watched(seen, file)
    with MarketClient(**market_settings(place, ledger)) as client:
        result = seen(client.token_prices(["ETH"]))
        seen(client.dry_run.token_prices(["ETH"]))
        for batch in seen(client.batches.token_prices(["ETH", "BRETT"], size=1, job="j")):
            seen(batch)
        for value in (
            result.payment,
            result.receipt,
            result.quote,
            client.payments.list(),
            client.payments.reconcile(),
        ):
            seen(value)
        for value in (client, client.quote, client.batches, client.payments, client.with_options(timeout=3), ledger):
            seen(value)
            seen([*vars(value).values()] if hasattr(value, "__dict__") else value)
            for duplicate in (copy.copy, copy.deepcopy):
                seen.either(duplicate, value)
        seen.raises(client.payments.resume, result.payment.id)
        seen.raises(client.token_prices, ["ETH"], max_price="0.01")
    assert len(seen.secrets) == 3 * 3
    for each in (file, *file.parent.glob("ledger.sqlite3-*")):
        assert each.stat().st_mode & 0o077 == 0, each
    ledger.close()


@scenario
def payments_that_fail(seen: Seen, place: Place) -> None:
    """Errors with their causes and tracebacks, and every line of every log, those of the HTTP library included."""
    faults: tuple[tuple[str, dict[str, Any]], ...] = (
        *(("reset", {}), ("reset", {"executed": True}), ("status", {"status": 500}), ("status", {"status": 404})),
        *(
            ("verification", {"reason": "invalid_exact_evm_payload_signature"}),
            ("overlook", {}),
            ("malformed_json", {}),
        ),
        *(("settlement", {"reason": "settlement_pending"}), ("receipt", {"raw": "@@@"}), ("truncate", {})),
    )
    ledger = watched(seen)
    for flavour in (
        "blocking",
        "async",
        "handed in",
    ):  # what is lost, each way to send; the rest is decided in one place
        for number, (kind, options) in enumerate(faults if flavour == "blocking" else faults[:3]):
            rule = place.server.add_fault(kind, paid="only", **options)
            call = partial(_buy, place, ledger, flavour, f"T{number}")
            if kind == "receipt":
                seen(call())
            else:
                seen.raises(call)
            place.server.remove_fault(rule.id)
    assert len(seen.secrets) == 3 * (len(faults) + 2 * 3)
    with MarketClient(**market_settings(place, ledger, max_retries=0)) as client:
        for payment in seen(client.payments.list())[::3]:
            seen.either(client.payments.resume, payment.id)
        seen(client.payments.reconcile())


def _buy(place: Place, ledger: Ledger, flavour: str, token: str) -> Any:
    limits = {"limit": 5 + int(token[1:])}  # another call each time
    # Without the list of tokens, which is long and is in many frames; other scenarios read it.
    settings = market_settings(place, ledger, max_retries=1, check_tokens=False)
    if flavour == "blocking":
        with MarketClient(**settings) as client:
            return client.token_signals(["ETH"], limit=limits["limit"])
    if flavour == "handed in":
        with httpx.Client(trust_env=False, verify=TLS) as http, MarketClient(**settings, http_client=http) as client:
            return client.token_signals(["ETH"], limit=limits["limit"] + 20)

    async def buy() -> Any:
        async with AsyncMarketClient(**settings) as client:
            return await client.token_signals(["ETH"], limit=limits["limit"] + 40)

    return asyncio.run(buy())


@scenario
def wallet_keys_of_a_market_client(seen: Seen, place: Place) -> None:
    settings = market_settings(place, Ledger.memory(), signer=None)
    for key in (WALLET_KEY + "0", WALLET_KEY[:-1] + "g", WALLET_KEY * 2, f" {WALLET_KEY}x"):
        place.monkeypatch.setenv("TRADE_WALLET_KEY", key)
        with MarketClient(**settings) as client:
            seen(client)
            seen.raises(client.token_prices, ["ETH"])
    for given in (WALLET_KEY, bytes.fromhex(WALLET_KEY[2:])):
        seen.raises(MarketClient, **settings | {"signer": given})
    seen.raises(MarketClient, **settings | {"ledger": WALLET_KEY})
    seen.raises(MarketClient, **settings | {"budget": WALLET_KEY})


@scenario
def keystores(seen: Seen, place: Place) -> None:
    seen.secrets = ["a-marked-passphrase"]
    path = place.trade.home / "key.json"
    create_keystore(path, "a-marked-passphrase", key=WALLET_KEY, work=2)
    seen(path.read_text())
    seen(keystore_address(path))
    seen(LocalSigner.from_keystore(path, "a-marked-passphrase"))
    seen.raises(LocalSigner.from_keystore, path, "a-marked-passphrase?")
    path.chmod(0o644)
    seen.raises(LocalSigner.from_keystore, path, "a-marked-passphrase")
    path.chmod(0o600)
    path.write_text(path.read_text()[:-20])
    seen.raises(LocalSigner.from_keystore, path, "a-marked-passphrase")


@scenario
def nodes_of_the_chain(seen: Seen, place: Place) -> None:
    """A key in the path or the query of a node's URL, whatever the node answers, over each kind of connection."""
    secret = "a-marked-node-key-0123456789"
    seen.secrets = [secret]
    ledger = Ledger.memory()
    settings = market_settings(place, ledger, max_retries=0)
    with MarketClient(**settings) as client:
        fault = place.server.add_fault("status", paid="only", status=503)
        seen.raises(client.token_prices, ["ETH"])
        place.server.remove_fault(fault.id)
        payment = client.payments.list()[0]
    tails = (f"/v2/{secret}", f"?key={secret}", f"/{secret}/?a={secret}")
    for tail, base in zip(
        tails, (place.server.rpc_url, place.server.url + "/nothing", "http://127.0.0.1:9"), strict=True
    ):
        with seen(ChainWitness(base + tail)) as witness:
            seen(witness.check(payment))
            for value in vars(witness).values():
                seen(value)
            for duplicate in (copy.copy, copy.deepcopy):
                seen.either(duplicate, witness)
            place.monkeypatch.setenv("TRADE_RPC_URL", base + tail)
            with MarketClient(**settings) as client:
                seen(client)
                seen(client.payments.reconcile())
        seen.raises(witness.check, payment)
        for scheme in ("http", "ftp"):
            place.monkeypatch.setenv("TRADE_RPC_URL", f"{scheme}://node.example{tail}")
            seen.raises(MarketClient, base_url=place.server.url, ledger=ledger)
            seen.raises(ChainWitness, f"{scheme}://node.example{tail}")
            seen.raises(AsyncChainWitness, "https://node.example", f"{scheme}://node.example{tail}")
    place.monkeypatch.delenv("TRADE_RPC_URL")
    for answer in answers():
        http = httpx.Client(transport=httpx.MockTransport(lambda request, answer=answer: answer))
        seen(ChainWitness(f"https://node.example/v2/{secret}", http_client=http).check(payment))
