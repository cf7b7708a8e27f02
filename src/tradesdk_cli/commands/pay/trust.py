"""`trade pay trust`: who may be paid."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import DryRun, Yes
from tradesdk_cli.session import session
from tradesdk_cli.text import one_line

app = single("Accept one more address to pay.")

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


@app.verb("trust", "trade --mock pay trust ADDRESS", "trade --mock pay trust ADDRESS --dry-run")
def trust(
    ctx: typer.Context,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The recipient, as the refusal named it.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Accept one more address to pay.

    The first address paid is remembered, and another one is refused, as it may be an attacker's. Accept one only if the
    service confirms it elsewhere.
    """
    from urllib.parse import urlsplit

    from tradesdk_cli.confirm import approve

    if not _ADDRESS.fullmatch(address):
        from tradesdk_cli.redact import safe

        raise UsageProblem(
            f"{one_line(safe(address), 60)} is not an address",
            "an address is 0x and 40 hexadecimal digits, as the refusal shows it",
        )
    from tradesdk_cli.confirm import LEDGER, Change
    from tradesdk_cli.purchase.checkout import market_client

    with session(ctx) as run:
        client = market_client(run)
        parts = urlsplit(client.base_url)
        origin = f"{parts.scheme}://{parts.netloc}"
        known = client.payments.trusted()
        body = {
            "service": origin,
            "recipient": address,
            "accepted_so_far": ", ".join(known) or "any, at the first call",
        }
        if approve(run, Change(f"pay {address} from now on", LEDGER, "trust", body), yes=yes, dry_run=dry_run):
            client.payments.trust(address)
            run.out.one({"service": origin, "accepted": client.payments.trusted()})
