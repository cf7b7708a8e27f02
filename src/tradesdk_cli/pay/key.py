"""`trade pay key`: the wallet's key, in an encrypted keystore."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import Consent
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.run import Run, run_of
from tradesdk_cli.text import bare_key

app = noun("key", "The key of the wallet that pays: new, import, address, accept-secret.", run_of)

WalletFile = Annotated[
    Path | None,
    typer.Option("--wallet", metavar="FILE", help="The keystore [env: TRADE_KEYSTORE]; keystore.json by default."),
]


@app.verb("new", "trade pay key new", "trade pay key new --wallet second.json")
def new(run: Run, wallet: WalletFile = None) -> None:
    """Make a new wallet: a random key in an encrypted keystore.

    The password is asked for twice, or is the first line of the file that TRADE_KEYSTORE_PASSWORD_FILE names. Without
    it the money is lost: keep both, in two places. A file that exists is never overwritten.
    """
    _create(run, wallet, None)


@app.verb("import", "trade pay key import --wallet old.json < key.txt", "trade pay key import < key.txt")
def import_key(run: Run, wallet: WalletFile = None) -> None:
    """Encrypt an existing private key into a keystore.

    The key is typed without being shown, or read from a pipe. It is never an option: other users could see that.
    """
    from tradesdk_cli.wallet import KEY, KEY_HINT, hidden

    _new_keystore(run, wallet)  # before the key is typed
    typed = hidden("the private key: ") if sys.stdin.isatty() else sys.stdin.readline()
    key = bare_key(typed, KEY)
    if not key:
        raise ConfigProblem("there was no private key", KEY_HINT)
    _create(run, wallet, key)


@app.verb("address", "trade --mock pay key address", "trade pay key address -o json")
def address(run: Run, wallet: WalletFile = None) -> None:
    """Show the address of the wallet that pays. It needs no password."""
    from tradesdk_cli.wallet import KEY, keystore_path

    found = run.wallet(wallet)
    if found is None:
        raise ConfigProblem(
            f"there is no wallet: neither {KEY} nor {keystore_path(run.settings, wallet)}",
            "make one: {trade} pay key new",
        )
    if run.settings.mock:
        kept = None
        run.out.note("play money of a mock world: never send real money to this address")
    else:
        kept = KEY if wallet is None and os.environ.get(KEY) else str(keystore_path(run.settings, wallet))
    run.out.one({"address": found.address, "kept_in": kept})


@app.verb("accept-secret", "trade --mock pay key accept-secret --yes", "trade pay key accept-secret --dry-run")
def accept_secret(run: Run, wallet: WalletFile = None, *, consent: Consent) -> None:
    """Accept another purchase secret than before.

    The nonces of named purchases (--purchase) are made with a secret: that of TRADE_PURCHASE_SECRET, else one
    that comes from the key. Purchases in this ledger keep their nonces. Names that only other ledgers have paid for
    can be paid for again.
    """
    from tradesdk_cli.confirm import LEDGER, Change, approve, check
    from tradesdk_cli.pay.checkout import market_client

    what = "accept another purchase secret"
    check(what, **vars(consent))
    found = run.wallet(wallet)
    client = market_client(run, found)
    known, given = client.payments.purchase_secret_ids()
    payer = None if found is None else found.address
    body = {"payer": payer, "secret_id": given}
    change = Change(what, LEDGER, "accept-secret", body, before={"payer": payer, "secret_id": known})
    if approve(run, change, **vars(consent)):
        run.out.one({**body, "secret_id": client.payments.accept_purchase_secret()})


def _create(run: Run, wallet: Path | None, key: str | None) -> None:
    from tradesdk import create_keystore
    from tradesdk_cli.wallet import ask_password

    path = _new_keystore(run, wallet)
    made = create_keystore(path, ask_password(path, new=True), key)
    run.out.one({"address": made, "kept_in": str(path)})
    run.out.note("it needs USDC on Base to pay with, and no ETH; a little is enough: it is for small payments")


def _new_keystore(run: Run, wallet: Path | None) -> Path:
    from tradesdk_cli.wallet import keystore_path

    if run.settings.mock:
        raise UsageProblem("a mock world makes its own wallet, with play money", "leave --mock out for a real wallet")
    path = keystore_path(run.settings, wallet)
    if os.path.lexists(path):
        raise ConfigProblem(f"{path} exists already, and a keystore is never overwritten", "--wallet FILE: another one")
    return path
