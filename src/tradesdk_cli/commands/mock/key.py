"""`trade mock key`: API keys of the mock."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.commands.mock.control import ask, given, rows, word
from tradesdk_cli.commands.mock.tenant import Plan
from tradesdk_cli.framework.group import noun
from tradesdk_cli.framework.params import A_TIME, unix_or_date
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk_cli.session import Session

app = noun("key", "API keys of the mock: create, list, scope, expire, rotate, revoke.")


class Scope(StrEnum):
    """What a key may do."""

    full = "full-access"
    read = "read-only"


KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="As trade mock key list shows it.")]


@app.verb(
    "create", "trade --mock mock key create --name bot", "trade --mock mock key create --name eyes --scope read-only"
)
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="What it is for.")],
    scope: Annotated[Scope, typer.Option("--scope", help="What it may do.")] = Scope.full,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant", metavar="NAME", help="The tenant: me has agents and trades; by default a new, empty one."
        ),
    ] = None,
    plan: Annotated[
        Plan | None, typer.Option("--plan", help="The plan of a new tenant, pro by default; others keep theirs.")
    ] = None,
) -> None:
    """Create a key. Its value is shown only once."""
    body = given(name=name, scope=scope.value, tenant=tenant, plan=plan.value if plan else None)
    with session(ctx) as run:
        run.out.one(ask(run, "POST", "keys", body))


@app.verb("list", "trade --mock mock key list", "trade mock key list -o json")
def list_keys(ctx: typer.Context) -> None:
    """List keys, without their values."""
    from tradesdk_cli.output.columns import KEYS

    with session(ctx) as run:
        run.out.many(KEYS, [rows(run, "GET", "keys", each={"id": str})], empty="no keys yet")


@app.verb("scope", "trade --mock mock key scope KEY_ID read-only", "trade mock key scope KEY_ID full-access -o json")
def change_scope(
    ctx: typer.Context, key_id: KeyId, scope: Annotated[Scope, typer.Argument(metavar="full-access|read-only")]
) -> None:
    """Change what a key may do, from now on."""
    with session(ctx) as run:
        run.out.one(_change(run, key_id, "scope", {"scope": scope.value}))


@app.verb("expire", "trade --mock mock key expire KEY_ID", "trade mock key expire KEY_ID --at 1900000000")
def expire(
    ctx: typer.Context,
    key_id: KeyId,
    at: Annotated[
        float | None,
        typer.Option(
            "--at",
            parser=unix_or_date(),
            metavar="TIME",
            help=f"At this time of the mock's clock: {A_TIME} (default: now).",
        ),
    ] = None,
) -> None:
    """Expire a key, now or at a time."""
    with session(ctx) as run:
        run.out.one(_change(run, key_id, "expire", given(at=at)))


@app.verb("rotate", "trade --mock mock key rotate KEY_ID", "trade mock key rotate KEY_ID -o json")
def rotate(ctx: typer.Context, key_id: KeyId) -> None:
    """Revoke a key and create one of the same name, scope and tenant. The new value is shown only once."""
    with session(ctx) as run:
        run.out.one(_change(run, key_id, "rotate"))


@app.verb("revoke", "trade --mock mock key revoke KEY_ID", "trade mock key revoke KEY_ID -o json")
def revoke(ctx: typer.Context, key_id: KeyId) -> None:
    """Revoke a key; requests with it get 401."""
    with session(ctx) as run:
        run.out.one(_change(run, key_id, "revoke"))


def _change(run: Session, key_id: str, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    return ask(run, "POST", f"keys/{word(key_id)}/{verb}", body, look="mock key list", when=(404,))
