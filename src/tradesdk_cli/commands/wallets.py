"""`trade wallets`: list, connect, and what is in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import AnyChain, Chain, DryRun, Walk, Yes, pages
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk import LocalSigner

app = noun("wallets", "Wallets: list, connect, balance.")


@app.verb("list", "trade wallets list", "trade wallets list --chain base -o json", walk=pages)
def list_wallets(
    ctx: typer.Context,
    *,
    chain: AnyChain = None,
    walk: Walk,
) -> None:
    """List connected wallets; the first 20 by default."""
    from tradesdk_cli.commands.lists import Source, show_list
    from tradesdk_cli.output.columns import WALLETS

    with session(ctx) as run:
        found = Source("wallets", run.client.wallets.list, {"chain_id": chain})
        show_list(
            run, WALLETS, walk, found, empty=f"no wallets; connect one: {run.settings.program} wallets connect --help"
        )


@app.verb(
    "connect",
    "trade wallets connect --label main --chain base",
    "trade wallets connect --label main --chain base --address ADDRESS --signature SIGNATURE",
)
def connect(
    ctx: typer.Context,
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="A name for the wallet.")],
    chain: Chain,
    address: Annotated[str | None, typer.Option("--address", metavar="ADDRESS", help="The wallet's address.")] = None,
    signature: Annotated[
        str | None, typer.Option("--signature", metavar="HEX", help="The verification message, signed.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Connect a wallet by proving that it is yours.

    Either sign the verification message elsewhere and give --address and --signature, or let this program sign it with
    the private key in the variable TRADE_WALLET_KEY. The key is never sent.
    """
    from tradesdk_cli.confirm import approve

    signer = None
    if signature is None:
        signer = _signer(address)
        address = signer.address
    elif address is None:
        raise UsageProblem("--signature needs --address", "the address whose key made the signature")
    shown = {"address": address, "chain_id": chain, "label": label, "signature": signature or "(made when it is sent)"}
    from tradesdk import Wallet
    from tradesdk_cli.confirm import Change

    with session(ctx) as run:
        if not dry_run:
            run.out.selection.expect(Wallet)
        change = Change(f"connect the wallet {address} as {label}", "POST", "/v1/wallets", shown)
        if approve(run, change, yes=yes, dry_run=dry_run):
            wallets = run.client.wallets
            if signer is not None:
                run.show(wallets.connect_with(signer, label=label, chain_id=chain))
            elif signature is not None:
                run.show(wallets.connect(address=address, chain_id=chain, label=label, signature=signature))


def _signer(address: str | None) -> LocalSigner:
    from tradesdk import LocalSigner
    from tradesdk_cli.wallet import KEY

    if not os.environ.get(KEY):
        raise UsageProblem(
            "nothing proves that the wallet is yours",
            f"give --address and --signature, or export {KEY} (a private key, 0x and 64 hex digits)",
        )
    signer = LocalSigner.from_env(KEY)
    if address is not None and address.lower() != signer.address.lower():
        raise UsageProblem(f"--address is not the address of {KEY}", f"that one is {signer.address}")
    return signer


@app.verb("balance", "trade wallets balance WALLET_ID", "trade wallets balance WALLET_ID -o json")
def balance(
    ctx: typer.Context,
    wallet_id: Annotated[
        str,
        typer.Argument(metavar="WALLET_ID", help="The wallet: its id, label or address, or the beginning of its id."),
    ],
) -> None:
    """Show what a wallet holds, in USD and token by token."""
    from tradesdk_cli.lookup import WALLETS, reached

    with session(ctx) as run:
        run.show(reached(run, WALLETS, wallet_id, lambda found: run.client.wallets.balance(found)))
