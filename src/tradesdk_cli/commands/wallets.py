"""`trade wallets`: list, connect, balance."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import AnyChain, Chain, Consent, Walk
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.files import file_errors
from tradesdk_cli.lookup import WALLETS, reached
from tradesdk_cli.run import Run, run_of
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk_cli.wallet import Wallet

app = noun("wallets", "Wallets: list, connect, balance.", run_of)


@app.verb("list", "trade wallets list", "trade wallets list --chain base -o json")
def list_wallets(
    run: Run,
    *,
    chain: AnyChain = None,
    walk: Walk,
) -> None:
    """List connected wallets; the first 20 by default."""
    from tradesdk_cli.commands.lists import Source, show_list
    from tradesdk_cli.output import columns

    found = Source("wallets", run.client.wallets.list, {"chain_id": chain})
    empty = f"no wallets; connect one: {run.settings.program} wallets connect --help"
    show_list(run, columns.WALLETS, walk, found, empty=empty)


@app.verb(
    "connect",
    "trade wallets connect --label main --chain base",
    "trade wallets connect --label main --chain base --address ADDRESS --signature SIGNATURE",
)
def connect(
    run: Run,
    label: Annotated[str, typer.Option(metavar="TEXT", help="A name for the wallet.")],
    chain: Chain,
    address: Annotated[str | None, typer.Option(metavar="ADDRESS", help="The wallet's address.")] = None,
    signature: Annotated[
        str | None, typer.Option(metavar="HEX", help="Signature of the verification text, made elsewhere.")
    ] = None,
    message: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The text to sign, as the dashboard shows it.")
    ] = None,
    message_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with that text; - for standard input.")
    ] = None,
    wallet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The keystore that signs [env: TRADE_KEYSTORE].")
    ] = None,
    *,
    consent: Consent,
) -> None:
    """Connect a wallet by proving that it is yours.

    Signs a text with TRADE_WALLET_KEY or a keystore, as purchases do; the key is never sent. The service does not
    document the text: --message or --message-file gives the one that the dashboard shows (of a file, without the line
    break at its end). Or sign it elsewhere, and give --address and --signature.
    """
    from tradesdk import Wallet as Connected
    from tradesdk import wallet_message
    from tradesdk_cli.confirm import Change, approve

    text = _text_to_sign(message, message_file)
    if signature is not None:
        for option, value in (("--message", text), ("--wallet", wallet)):
            if value is not None:
                raise UsageProblem(f"{option} has no effect with --signature", "leave one of them out")
        if address is None:
            raise UsageProblem("--signature needs --address", "the address whose key made the signature")
    signer = None if signature is not None else _signer(run, wallet, address)
    address = address if signer is None else signer.address
    if not consent.dry_run:
        run.out.selection.expect(Connected)
    shown = signature or "(made when it is sent)"
    body = {"address": address, "chain_id": chain, "label": label, "signature": shown}
    about = {} if signer is None else {"text to sign": text or wallet_message(str(address), chain)}
    change = Change(f"connect the wallet {address} as {label}", "POST", "/v1/wallets", body, about=about)
    if approve(run, change, **vars(consent)):
        wallets = run.client.wallets
        if signer is not None:
            run.show(wallets.connect_with(signer, label=label, chain_id=chain, message=text))
        elif address is not None and signature is not None:
            run.show(wallets.connect(address=address, chain_id=chain, label=label, signature=signature))


def _text_to_sign(message: str | None, file: str | None) -> str | None:
    if message is not None and file is not None:
        raise UsageProblem("--message and --message-file exclude each other", "leave one of them out")
    if file is None:
        if message == "":
            raise UsageProblem("--message is empty", "give the text that the dashboard shows")
        return message
    if file == "-" and sys.stdin.isatty():
        raise UsageProblem("--message-file - reads from a pipe, not from a terminal", "--message-file FILE, or < FILE")
    with file_errors(UsageProblem, f"cannot read {one_line(file)}", "--message-file FILE"):
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageProblem(f"{one_line(file)} is not text in UTF-8", "save it as UTF-8") from None
    if not text:
        raise UsageProblem(f"{one_line(file)} is empty", "it has the text that the dashboard shows")
    return text


def _signer(run: Run, file: Path | None, address: str | None) -> Wallet:
    """The signer: your wallet; in a mock world, unless one is named, the play-money wallet."""
    from tradesdk_cli.wallet import KEY, KEYSTORE, own_wallet

    named = file is not None or bool(os.environ.get(KEY) or os.environ.get(KEYSTORE))
    found = own_wallet(run.settings, file) if named or not run.settings.mock else run.wallet()
    if found is None:
        raise UsageProblem(
            "nothing proves that the wallet is yours: there is no key to sign with",
            f"export {KEY}, or name a keystore: --wallet FILE; or sign elsewhere: --address and --signature",
        )
    if address is not None and address.lower() != found.address.lower():
        raise UsageProblem("--address is not the address of the wallet that signs", f"that one is {found.address}")
    return found


@app.verb("balance", "trade wallets balance WALLET_ID", "trade wallets balance WALLET_ID -o json")
def balance(
    run: Run,
    wallet_id: Annotated[
        str,
        typer.Argument(metavar="WALLET_ID", help="The wallet: its id, label or address, or the beginning of its id."),
    ],
) -> None:
    """Show what a wallet holds, in USD and token by token."""
    run.show(reached(run, WALLETS, wallet_id, lambda found: run.client.wallets.balance(found)))
