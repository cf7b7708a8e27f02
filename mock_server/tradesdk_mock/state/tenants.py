"""Tenants and their API keys: scope, plan, and who sent a request. Called within the caller's transaction."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from ..core.clock import check_time
from ..core.errors import MockServerError, unauthorized, unknown
from ..core.gap_options import PLANS
from ..core.seeding import digest, ident

if TYPE_CHECKING:
    from .world import World

Scope = Literal["full-access", "read-only"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PERIOD = 30 * 86_400
_LISTED = ("id", "name", "scope", "tenant", "last4", "state", "created_at")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_PATTERN = re.compile(
    rf"mock_(?P<scope>full|read)_(?:(?P<plan>{'|'.join(PLANS)})_)?(?P<tenant>{_TENANT.pattern})", re.ASCII
)
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]{1,512}) *")


@dataclass(frozen=True, slots=True)
class MockKey:
    """An API key.

    Attributes:
        id: identifies the key in the server's methods.
        value: what a client sends. It is shown only here; the server keeps a hash.
        name: the name given when it was created.
        scope: `full-access` or `read-only`.
        tenant: the owner.
        last4: the last four characters of `value`, as the account shows them.
    """

    id: str
    value: str = field(repr=False)
    name: str
    scope: str
    tenant: str
    last4: str


@dataclass(slots=True)
class Principal:
    """The sender of a request: its key and tenant at that time."""

    key_id: str
    last4: str
    scope: str
    tenant: str
    plan: str
    requests_used: int
    reset_at: int


def check_tenant(tenant: str) -> None:
    """MockServerError for a bad tenant name."""
    if not isinstance(tenant, str):
        raise MockServerError(f"a tenant is a name such as 'me', not of type {type(tenant).__name__}")
    if not _TENANT.fullmatch(tenant):
        raise MockServerError(f"{tenant!r} is not a tenant name: letters, digits, `_`, `.` and `-`, at most 64")


def ensure_tenant(world: World, tenant: str, plan: str | None = None) -> None:
    """Create the tenant on first use; an existing one keeps its plan. MockServerError for a bad name or plan."""
    check_tenant(tenant)
    if plan is not None and plan not in PLANS:
        raise MockServerError(f"{plan!r} is not a plan: {', '.join(PLANS)}")
    now = world.second()
    world.store.run(
        "INSERT INTO tenants (name, id, email, plan, created_at, reset_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (tenant, ident("acc", world.seed, tenant), f"{tenant}@example.test", plan or "pro", now, now + PERIOD),
    )


def create(
    world: World,
    *,
    name: str = "bot",
    scope: str = "full-access",
    plan: str | None = None,
    tenant: str | None = None,
    value: str | None = None,
) -> MockKey:
    """Create a key; without `tenant`, for a new and empty tenant."""
    if scope not in SCOPES:
        raise MockServerError(f"{scope!r} is not a scope: {', '.join(SCOPES)}")
    if tenant is None:
        tenant = f"tenant-{world.store.next('', 'tenant')}"
        while world.store.value("SELECT 1 FROM tenants WHERE name = ?", (tenant,)):
            tenant = f"tenant-{world.store.next('', 'tenant')}"
    ensure_tenant(world, tenant, plan)
    ordinal = world.store.next(tenant, "key")
    key_id = ident("key", world.seed, tenant, ordinal)
    if value is None:
        value = "mocksk_" + digest(world.seed, "key value", tenant, ordinal).hex()[:40]
    world.store.add(
        "keys",
        id=key_id,
        hash=_hash(value),
        last4=value[-4:],
        name=name,
        scope=scope,
        tenant=tenant,
        created_at=world.second(),
    )
    return MockKey(key_id, value, name, scope, tenant, value[-4:])


def revoke(world: World, key_id: str) -> None:
    _change(world, key_id, "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?", world.second())


def expire(world: World, key_id: str, at: float | None = None) -> None:
    """Let the key expire at `at` (Unix seconds), by default now. MockServerError for a bad time."""
    if at is not None:
        try:
            check_time(at)
        except ValueError as error:
            raise MockServerError(f"the end of a key: {error}") from None
    _change(world, key_id, "UPDATE keys SET expires_at = ? WHERE id = ?", world.now() if at is None else at)


def rotate(world: World, key_id: str) -> MockKey:
    """Revoke a key and create one with the same name, scope and tenant. MockServerError when it is revoked already."""
    row = world.store.one("SELECT name, scope, tenant, revoked_at FROM keys WHERE id = ?", (key_id,))
    if row is None:
        raise _no_key(key_id)
    if row[3] is not None:
        raise MockServerError(f"the key {key_id} is revoked, and gives no new one")
    revoke(world, key_id)
    return create(world, name=row[0], scope=row[1], tenant=row[2])


def _change(world: World, key_id: str, sql: str, value: object) -> None:
    if not world.store.run(sql, (value, key_id)):
        raise _no_key(key_id)


def _no_key(key_id: object) -> MockServerError:
    """The error for an unknown key id. It never shows the id, which may be a key's value by mistake."""
    text = str(key_id)
    if text.startswith("key_"):
        return unknown(f"there is no key {text[:80]!r}")
    if text.lstrip().startswith(("mocksk_", "mock_full_", "mock_read_")):
        return unknown("that is a key's value; its id begins with key_")
    return unknown("that is not the id of a key, which begins with key_")


def set_plan(world: World, tenant: str, plan: str) -> None:
    """Change the plan: an upgrade at once, a downgrade at the end of the billing period."""
    if plan not in PLANS:
        raise MockServerError(f"{plan!r} is not a plan: {', '.join(PLANS)}")
    ensure_tenant(world, tenant, plan)
    row = world.store.one("SELECT plan, reset_at FROM tenants WHERE name = ?", (tenant,))
    assert row is not None  # noqa: S101 - created above
    current, reset_at, now = str(row[0]), int(row[1]), world.second()
    if now >= reset_at:
        current, _ = _begin_period(world, tenant, reset_at, now)
    if PLANS.index(plan) >= PLANS.index(current):
        world.store.run("UPDATE tenants SET plan = ?, next_plan = NULL WHERE name = ?", (plan, tenant))
    else:
        world.store.run("UPDATE tenants SET next_plan = ? WHERE name = ?", (plan, tenant))


def _begin_period(world: World, tenant: str, reset_at: int, now: int) -> tuple[str, int]:
    """Begin a new billing period after the one that ended at `reset_at`. Returns (plan, reset_at)."""
    reset_at += ((now - reset_at) // PERIOD + 1) * PERIOD
    world.store.run(
        "UPDATE tenants SET requests_used = 0, plan = coalesce(next_plan, plan), next_plan = NULL, reset_at = ?"
        " WHERE name = ?",
        (reset_at, tenant),
    )
    return str(world.store.value("SELECT plan FROM tenants WHERE name = ?", (tenant,))), reset_at


def listing(world: World) -> list[dict[str, object]]:
    """Every key without its value, oldest first."""
    state = "CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= ? THEN 'expired' ELSE 'valid' END"
    rows = world.store.all(
        f"SELECT id, name, scope, tenant, last4, {state}, created_at FROM keys ORDER BY seq",  # noqa: S608 - our own
        (world.now(),),
    )
    return [dict(zip(_LISTED, row, strict=True)) for row in rows]


def authenticate(world: World, headers: list[tuple[bytes, bytes]], now: float) -> Principal:
    """The owner of the key in the Authorization header; 401 when it is missing, unknown, revoked or expired.

    A key such as `mock_full_free_NAME` is created on first use. Its plan applies only when the tenant is new, too: an
    existing tenant keeps its plan.
    """
    value = _sent_key(headers)
    if value is None:
        if any(name == b"authorization" for name, _ in headers):
            raise unauthorized("The Authorization header is not of the form: Bearer <API_KEY>.")
        raise unauthorized("No API key: send Authorization: Bearer <API_KEY>.")
    row = _lookup(world, value)
    if row is None:
        pattern = _PATTERN.fullmatch(value)
        if not pattern:
            raise unauthorized("The API key is not valid.")
        scope = "full-access" if pattern["scope"] == "full" else "read-only"
        create(world, name="by pattern", scope=scope, plan=pattern["plan"], tenant=pattern["tenant"], value=value)
        row = _lookup(world, value)
        assert row is not None  # noqa: S101 - created above, in the same transaction
    key_id, last4, scope, tenant, plan, used, reset_at, revoked_at, expires_at = row
    if revoked_at is not None:
        raise unauthorized("The API key has been revoked.")
    if expires_at is not None and expires_at <= now:
        raise unauthorized("The API key has expired.")
    if now >= reset_at:
        plan, reset_at = _begin_period(world, tenant, reset_at, int(now))
        used = 0
    return Principal(key_id, last4, scope, tenant, plan, used, reset_at)


def identify(world: World, headers: list[tuple[bytes, bytes]]) -> tuple[str | None, str | None]:
    """(tenant, id) of the key that a request carries, valid or not.

    Nothing is created: a key before its first use has no id, and an unknown key has no tenant either.
    """
    value = _sent_key(headers)
    if value is None:
        return None, None
    row = _lookup(world, value)
    if row is not None:
        return row[3], row[0]
    pattern = _PATTERN.fullmatch(value)
    return (pattern["tenant"] if pattern else None), None


def _sent_key(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The key in the Authorization header; None if it is missing, malformed or there twice."""
    given = [value for name, value in headers if name == b"authorization"]
    match = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    return None if match is None else match[1].decode("ascii")


def _lookup(world: World, value: str) -> tuple[str, str, str, str, str, int, int, int | None, float | None] | None:
    return world.store.one(
        "SELECT k.id, k.last4, k.scope, k.tenant, t.plan, t.requests_used, t.reset_at, k.revoked_at, k.expires_at"
        " FROM keys k JOIN tenants t ON t.name = k.tenant WHERE k.hash = ?",
        (_hash(value),),
    )


def _hash(value: str) -> bytes:
    return hashlib.sha256(value.encode("ascii")).digest()


def is_valid(world: World, key_id: str, now: float) -> bool:
    """Whether the key is neither revoked nor expired."""
    row = world.store.one("SELECT revoked_at, expires_at FROM keys WHERE id = ?", (key_id,))
    return row is not None and row[0] is None and (row[1] is None or row[1] > now)
