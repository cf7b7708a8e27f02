"""The ledger in PostgreSQL: what every ledger does; and servers that cannot be used: each error says what to do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from selectors import DefaultSelector
from typing import Any, cast
from unittest.mock import patch

import certifi
import psycopg
import pytest

from tradesdk import ConfigError, FleetError, Ledger, LedgerError, PaymentRefusedError, SystemClock, TradeError
from tradesdk._fleet.member import MemberLink
from tradesdk._postgres import connection, link
from tradesdk._postgres.connection import Connection, Statement, connect
from tradesdk._postgres.server import Server, server
from tradesdk._values.row import Row
from tradesdk.fleet import create_tables, status
from tradesdk.payments import ReasonCode
from tradesdk.payments.ledger.changes import Lookup, Record
from tradesdk.payments.ledger.postgres import PostgresEngine
from tradesdk.payments.state_machine import DELIVERED, OPEN, Report

from .._pages import ROOT, blocks
from .._ports import free_port
from .._postgres import LANGUAGE, Postgres, Proxy, new_schema
from .._requirements import install
from .._rows import each_of
from .._seller import Seller, settled
from .._sync._market import market_of
from ..e2e._streamrelay import tls_contexts
from ._ledger import NOW, PLENTY, Machines, claim, draft, resubmit, submitted, told, wanted
from ._ledger_cases import CASES, DRAWN, SOME

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def schema(postgres: Postgres) -> str:
    name = new_schema()
    assert create_tables(postgres.url(), schema=name)
    return name


@pytest.fixture
def ledger(postgres: Postgres, schema: str) -> Iterator[Ledger]:
    with Ledger.postgres(postgres.url(), schema=schema) as ledger:
        yield ledger


@pytest.mark.parametrize("names", [SOME, pytest.param(DRAWN, marks=pytest.mark.long)], ids=["some", "drawn"])
def test_it_does_what_every_ledger_does(postgres: Postgres, schema: str, names: list[str]) -> None:
    """By two machines in turns."""
    tables = ", ".join(f"{schema}.{name}" for name in ("payments", "sums", "runs", "settings"))
    begin = f"UPDATE {schema}.ledger SET signed = FALSE"  # noqa: S608
    for name in names:
        print(name)
        postgres.do(f"TRUNCATE {tables}", begin)
        with Machines(*(Ledger.postgres(postgres.url(), schema=schema) for _ in range(2))) as ledger:
            CASES[name](ledger)


def outcome(owner: str = "me") -> Record:
    return Record(report=Report(DELIVERED, "delivered"), signatures=1, owner=owner, now=NOW)


def test_a_payment_takes_three_round_trips(ledger: Ledger) -> None:
    """Two for what depends on all payments, and one for each change of the row that its call has."""
    submitted(ledger, draft(id="pay_before", fingerprint="before"))  # the first one remembers its recipient
    with patch.object(Connection, "run", autospec=True, side_effect=Connection.run) as run:
        row = ledger.submit(wanted(owner="me", until=NOW + 60))
        assert row is not None
        ledger.update(row.payment.id, outcome(), row)
    assert run.call_count == 3


@each_of("name", [None, "named"])
def test_a_paid_call_takes_four_round_trips(ledger: Ledger, name: str | None) -> None:
    """One to look before anything is requested, and those three: the answer is collected where it is written down."""
    client = market_of(Seller(receipt=settled()), ledger=ledger)
    client.token_prices(["WETH"], max_price="0.06", purchase=name and "first")
    with patch.object(Connection, "run", autospec=True, side_effect=Connection.run) as run:
        assert client.token_prices(["BRETT"], max_price="0.06", purchase=name).charged
    assert run.call_count == 4


class Cut:
    """Instead of `Connection.run`: the connection is lost in one round trip, after it was run or before.

    Args:
        at: which one it is.
        landed: whether it was run.
    """

    def __init__(self, at: int, landed: bool) -> None:
        self.left, self.landed = at, landed

    def __enter__(self) -> None:
        run = Connection.run

        def cut(connection: Connection, statements: Sequence[Statement], silence: float) -> list[list[Row]]:
            self.left -= 1
            if self.left:
                return run(connection, statements, silence)
            if self.landed:
                run(connection, statements, silence)
            raise psycopg.OperationalError("cut")

        self._patch = patch.object(Connection, "run", cut)
        self._patch.start()

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        assert self.left <= 0


@each_of("landed", [True, False], ids=["landed", "lost"])
def test_a_commit_whose_answer_is_lost_is_made_once(ledger: Ledger, landed: bool) -> None:
    """The connection of a call ends with the commit, before or after it."""
    row = ledger.submit(wanted(draft(id=f"pay_{landed}", fingerprint=f"{landed}"), owner="me", until=NOW + 60))
    assert row is not None
    with Cut(1, landed):
        after = ledger.update(row.payment.id, outcome(), row).payment
    assert ledger.get(row.payment.id) == after
    assert (after.submissions, after.signatures, after.stage) == (1, 1, "answered")
    ledger.check()


@each_of("again", [True, False])
@each_of("landed", [True, False], ids=["landed", "lost"])
def test_a_signature_whose_commit_is_not_answered_is_not_handed_over(ledger: Ledger, again: bool, landed: bool) -> None:
    """The call fails, as nobody knows whether it is written; and puts it right where it is."""
    name = f"{again} {landed}"
    first = submitted(ledger, draft(id=f"pay_{name}", fingerprint=name)) if again else None
    held, later = ledger.spending(PLENTY, now=NOW).held, NOW + 200
    mine: dict[str, Any] = {"owner": "me", "until": later + 60, "now": later}
    asked = draft(id=f"pay_{name}", fingerprint=name, valid_before=int(later) + 60, amount=50_000)
    with Cut(2, landed), pytest.raises(LedgerError):
        ledger.submit(wanted(asked, earlier=first, over=later, **mine))
    after = ledger.get(asked.id)
    if again:
        assert after is not None
        assert (after.counted, after.submissions) == (30_000, 1)
    else:
        assert (after and (after.counted, after.submissions)) == ((0, 0) if landed else None)
    assert ledger.spending(PLENTY, now=NOW).held == held
    ledger.check()
    submitted(ledger, asked, earlier=after, over=later, **{**mine, "owner": "next"})  # no claim is left


@each_of("seconds", [62, -62, 90_000])
def test_a_machine_whose_clock_differs_signs_nothing(ledger: Ledger, seconds: int) -> None:
    """Budgets of an hour and a day go by it."""
    real = SystemClock.now
    with patch.object(SystemClock, "now", lambda clock: real(clock) + seconds):
        with pytest.raises(PaymentRefusedError, match=f"{'ahead of' if seconds > 0 else 'behind'} that of") as caught:
            submitted(ledger)
        assert ledger.history() == []
    assert (caught.value.code, caught.value.charged) == ("clock_difference", False)
    assert "clock" in caught.value.hint


@each_of("again", [False, True])
def test_what_was_sent_counts_though_the_database_is_set_back(
    postgres: Postgres, schema: str, ledger: Ledger, again: bool
) -> None:
    """As by a failover to a standby without the last commits, in the middle of a call."""
    name, tables = f"call {again}", ("payments", "sums")
    first = submitted(ledger, draft(id=f"pay_{again}", fingerprint=name)) if again else None
    postgres.do(*(f"CREATE TABLE {schema}.{name}_{again} AS TABLE {schema}.{name}" for name in tables))
    asked = draft(id=f"pay_{again}", fingerprint=name, valid_before=int(NOW) + 400, amount=50_000)
    mine: dict[str, Any] = {"owner": "me", "until": NOW + 300, "now": NOW + 200, "over": NOW + 200}
    row = ledger.submit(wanted(asked, earlier=first, **mine))
    assert row is not None
    for table in tables:
        columns = postgres.columns(schema, table)
        postgres.do(
            f"TRUNCATE {schema}.{table}",
            f"INSERT INTO {schema}.{table} ({columns}) OVERRIDING SYSTEM VALUE "  # noqa: S608
            f"SELECT {columns} FROM {schema}.{table}_{again}",
        )
    postgres.do(f"UPDATE {schema}.ledger SET signed = EXISTS (SELECT FROM {schema}.payments)")  # noqa: S608
    with Ledger.postgres(postgres.url(), schema=schema) as other:  # others write meanwhile
        submitted(other, draft(id=f"pay_other_{again}", fingerprint=f"other {again}"), now=NOW + 200)
    report = Report(OPEN, "lost")
    lost = Record(report=report, signatures=row.payment.signatures, owner="me", now=NOW + 201)
    after = ledger.update(asked.id, lost, row).payment
    assert (after.stage, after.signatures, after.header) == ("sent", row.payment.signatures, row.payment.header)
    assert ledger.get(asked.id) == after
    assert ledger.spending(PLENTY, now=NOW + 201).held == sum(one.counted for one in ledger.history())
    assert after.counted == 50_000
    ledger.check()


@each_of("seconds", [600, -600])
def test_a_claim_ends_by_the_servers_clock(postgres: Postgres, schema: str, ledger: Ledger, seconds: int) -> None:
    """Not by that of another machine, which is ahead or behind."""
    payment = submitted(ledger, draft(id=f"pay_{seconds}", fingerprint=f"{seconds}"), owner="somebody", until=NOW + 300)
    real = SystemClock.now
    with (
        patch.object(SystemClock, "now", lambda clock: real(clock) + seconds),
        Ledger.postgres(postgres.url(), schema=schema) as other,
    ):
        assert not claim(other, payment, "other", now=NOW + seconds)
        assert not claim(other, payment, "other", now=NOW + seconds + 290)
        assert claim(other, payment, "other", now=NOW + seconds + 310)


def test_tables_are_created_once(postgres: Postgres, schema: str, ledger: Ledger) -> None:
    payment = submitted(ledger)
    assert not create_tables(postgres.url(), schema=schema)
    assert ledger.get(payment.id) == payment
    ledger.check()


def test_a_schema_with_the_name_of_a_word_of_sql(postgres: Postgres) -> None:
    try:
        assert [create_tables(postgres.url(), schema="user") for _ in range(2)] == [True, False]
        with Ledger.postgres(postgres.url(), schema="user") as ledger:
            told(ledger, submitted(ledger), ReasonCode.DELIVERED)
    finally:
        postgres.do('DROP SCHEMA "user" CASCADE')


def test_who_owns_the_schema_needs_no_right_to_create_one(postgres: Postgres) -> None:
    owner, other, name = new_schema(), new_schema(), new_schema()
    postgres.do(f"CREATE ROLE {owner} LOGIN", f"CREATE ROLE {other} LOGIN")
    try:
        postgres.do(f"CREATE SCHEMA {name} AUTHORIZATION {owner}", f"GRANT USAGE ON SCHEMA {name} TO {other}")
        with pytest.raises(FleetError, match=f"refuses: .*{name}") as caught:
            create_tables(postgres.url(other), schema=name)
        assert caught.value.code == "fleet_denied"
        assert create_tables(postgres.url(owner), schema=name)
        postgres.do(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {other}")
        assert not create_tables(postgres.url(other), schema=name)
    finally:
        postgres.do(f"DROP OWNED BY {owner}, {other} CASCADE", f"DROP ROLE {owner}, {other}")


def test_many_create_the_tables_at_once(postgres: Postgres) -> None:
    name, made = new_schema(), []
    threads = [
        threading.Thread(target=lambda: made.append(create_tables(postgres.url(), schema=name))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False] * 5 + [True]


def test_its_name_shows_no_password(postgres: Postgres) -> None:
    url = postgres.url().replace("postgres@", "postgres:swordfish@")
    ledger = Ledger.postgres(url, schema="nowhere")
    with pytest.raises(LedgerError) as caught:
        submitted(ledger)
    inside = caught.tb.tb_next  # this function has the URL
    frames = traceback.TracebackException(LedgerError, caught.value, inside, capture_locals=True)
    assert f"127.0.0.1:{postgres.port}" in repr(ledger)
    assert "swordfish" not in repr(ledger) + str(caught.value) + "".join(frames.format())
    ledger.close()


def test_an_error_shows_no_signed_payment(postgres: Postgres, schema: str, ledger: Ledger) -> None:
    postgres.do(f"ALTER TABLE {schema}.payments ADD CHECK (header IS NULL)")  # its message shows the row
    with pytest.raises(LedgerError) as caught:
        submitted(ledger)
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    text = "".join(frames.format())
    assert caught.value.code == "ledger_failed"
    assert "c2lnbmVkIGNoZXF1ZQ" not in text
    assert "Failing row" not in text


# Servers that cannot be used


def refused(url: str, code: str, *says: str, schema: str = "nowhere", hint: str = "") -> None:
    """Writing down a signature fails with a code, and creating the tables with the same of a fleet."""
    with Ledger.postgres(url, schema=schema) as ledger, pytest.raises(LedgerError) as caught:
        submitted(ledger)
    error = caught.value
    assert error.code == f"ledger_{code}", error
    for text in (*says, "nothing was sent"):
        assert text in error.message
    assert hint in error.hint
    assert error.hint
    assert str(error).isprintable()


@pytest.mark.long  # silence is waited for
@each_of("alive", [False, True])
def test_hosts_that_say_nothing_take_no_longer_than_one(
    postgres: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch, alive: bool
) -> None:
    for module in (link, connection):
        monkeypatch.setattr(module, "ANSWER", 0.4)
    monkeypatch.setattr(connection, "_CONNECT", 0.2)
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(socket.create_server(("127.0.0.1", 0)))) for _ in range(2)]
        ports = [one.getsockname()[1] for one in silent] + [postgres.port] * alive
        url = f"postgresql://postgres@{','.join(f'127.0.0.1:{port}' for port in ports)}/postgres"
        began = time.monotonic()
        if alive:
            assert not create_tables(url, schema=schema)
        else:
            with pytest.raises(FleetError) as caught:
                create_tables(url, schema=schema)
            assert caught.value.code == "fleet_unreachable"
            assert time.monotonic() - began < 2
        for one in silent:
            one.accept()[0].close()  # all were asked


def test_a_resolver_that_hangs_is_waited_for_as_long_as_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """libpq resolves names before it begins to wait."""
    for module in (link, connection):
        monkeypatch.setattr(module, "ANSWER", 0.1)
    resolved = threading.Event()

    def connect_slowly(*_: object, **__: object) -> None:
        resolved.wait(10)
        raise psycopg.OperationalError("it was resolved too late")

    monkeypatch.setattr(psycopg.Connection, "connect", connect_slowly)
    with pytest.raises(FleetError, match="no connection in") as caught:
        create_tables("postgresql://me@slow.example/bots")
    assert caught.value.code == "fleet_unreachable"
    resolved.set()


@pytest.mark.long  # silence is waited for
@each_of("in_transaction", [False, True])
def test_a_connection_that_a_firewall_has_dropped_is_made_anew(
    postgres: Postgres, schema: str, in_transaction: bool
) -> None:
    """Unless it is in the middle of a transaction, whose first half is lost with it."""
    proxy = Proxy(postgres.port)
    url = postgres.url().replace(f":{postgres.port}/", f":{proxy.port}/")
    with Ledger.postgres(url, schema=schema) as ledger, ExitStack() as stack:
        submitted(ledger, draft(id=f"pay_{in_transaction}", fingerprint=f"{in_transaction}"))
        before, began = proxy.connections, time.monotonic()
        after: list[tuple[float, int]] = []
        if in_transaction:
            stack.enter_context(patch.object(Ledger, "_save", side_effect=lambda *_: proxy.drop()))
            stack.enter_context(pytest.raises(LedgerError, match="said nothing"))
        else:
            proxy.drop()
        stack.callback(lambda: after.append((time.monotonic() - began, proxy.connections)))
        submitted(ledger, draft(id=f"more_{in_transaction}", fingerprint=f"more {in_transaction}"))
    ((seconds, connections),) = after
    assert seconds < 3
    assert connections == before + (not in_transaction)
    proxy.cut()


@pytest.mark.long  # silence is waited for
def test_a_server_that_is_stopped_is_an_error_within_three_seconds(postgres: Postgres, schema: str) -> None:
    proxy = Proxy(postgres.port)
    url = postgres.url().replace(f":{postgres.port}/", f":{proxy.port}/")
    with Ledger.postgres(url, schema=schema) as ledger:
        submitted(ledger)
        proxy.silent = True
        for _ in range(2):  # with its connection, and without one
            began = time.monotonic()
            with pytest.raises(LedgerError) as caught:
                submitted(ledger)
            assert caught.value.code == "ledger_unreachable"
            assert time.monotonic() - began < 3
    proxy.cut()


@pytest.mark.long  # half a second passes
def test_an_answer_may_take_long_while_it_arrives(postgres: Postgres) -> None:
    """Silence is counted from its last byte."""
    with closing(connect(server(postgres.url()))) as db:
        part = "SELECT repeat('x', 100000), pg_sleep(0.1)", ()
        assert [len(text) for ((text, _),) in db.run([part] * 5, 0.4)] == [100_000] * 5
        with pytest.raises(psycopg.OperationalError, match=r"said nothing for 0\.4 seconds"):
            db.run([("SELECT pg_sleep(0.6)", ())], 0.4)
        assert db.descriptor == -1


@pytest.mark.long  # two seconds pass
def test_a_server_that_says_nothing() -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=1)) as silent:  # it accepts, and says nothing
        port = silent.getsockname()[1]
        refused(f"postgresql://me@127.0.0.1:{port}/bots", "unreachable", f"127.0.0.1:{port}/bots", hint="runs")


def test_a_server_that_is_not_there() -> None:
    port = free_port()
    refused(f"postgresql://me@127.0.0.1:{port}/bots", "unreachable", "refused", hint="can be reached")
    with pytest.raises(FleetError) as caught:
        create_tables(f"postgresql://me@127.0.0.1:{port}/bots")
    assert caught.value.code == "fleet_unreachable"


def test_one_that_refuses_this_user(postgres: Postgres, schema: str) -> None:
    if not LANGUAGE:  # before there is a session, only English texts are known
        refused(postgres.url("nobody_here"), "denied", "nobody_here", hint="rights")
        refused(postgres.url().replace("/postgres?", "/no_such_db?"), "denied", "no_such_db")
    role = new_schema()
    postgres.do(f"CREATE ROLE {role} LOGIN")
    try:
        refused(postgres.url(role), "denied", "may not use the schema", schema=schema)
        postgres.do(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        refused(postgres.url(role), "denied", "refuses: ", schema=schema)
        with pytest.raises(FleetError) as caught:
            create_tables(postgres.url(role), schema=new_schema())
        assert caught.value.code == "fleet_denied"
        (rights,) = (block for block in blocks(ROOT / "docs" / "fleet.md") if block.language == "sql")
        postgres.do(*(line.replace("tradesdk", schema).replace("bots", role) for line in rights.lines))
        with Ledger.postgres(postgres.url(role), schema=schema) as ledger:
            told(ledger, submitted(ledger), ReasonCode.DELIVERED)
    finally:
        postgres.do(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_one_without_tables_is_not_begun_anew(postgres: Postgres, schema: str, ledger: Ledger) -> None:
    refused(postgres.url(), "lost", "nowhere", hint="put a backup back; or, if there never were tables, make them")
    submitted(ledger)
    postgres.do(f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(LedgerError) as caught:
        submitted(ledger)
    assert caught.value.code == "ledger_lost"


def test_one_that_is_read_only(postgres: Postgres, schema: str) -> None:
    url = postgres.url(options="-cdefault_transaction_read_only%3Don")
    refused(url, "read_only", "standby", schema=schema, hint="target_session_attrs")
    with Ledger.postgres(url, schema=schema) as ledger:
        assert ledger.history() == []


def test_one_that_may_forget(postgres: Postgres, schema: str) -> None:
    url = postgres.url(options="-csynchronous_commit%3Doff")
    refused(url, "not_durable", "synchronous_commit = off", schema=schema, hint="synchronous_commit = on")
    postgres.do("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    try:
        postgres.settled("fsync", "off")
        refused(postgres.url(), "not_durable", "fsync = off", schema=schema, hint="fsync = on")
    finally:
        postgres.do("ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
        postgres.settled("fsync", "on")


@each_of("setting", ["fsync", "synchronous_commit"])
def test_one_that_may_forget_from_now_on(postgres: Postgres, ledger: Ledger, setting: str) -> None:
    """A reload is noticed by the next payment, and by the next step of one under way."""
    name = f"before {setting}"
    payment = submitted(ledger, draft(id=f"pay_{setting}", fingerprint=name))
    uses: list[Callable[[], object]] = [
        lambda: submitted(ledger, draft(id=f"next_{setting}", fingerprint=f"next {setting}")),
        lambda: resubmit(ledger, payment),
    ]
    try:
        for use in uses:
            postgres.do(f"ALTER SYSTEM SET {setting} = off", "SELECT pg_reload_conf()")
            postgres.settled(setting, "off")
            with pytest.raises(LedgerError, match=f"{setting} = off") as caught:
                use()
            assert caught.value.code == "ledger_not_durable"
            postgres.do(f"ALTER SYSTEM RESET {setting}", "SELECT pg_reload_conf()")
            postgres.settled(setting, "on")
            assert use()
    finally:
        postgres.do(f"ALTER SYSTEM RESET {setting}", "SELECT pg_reload_conf()")
        postgres.settled(setting, "on")


def test_one_whose_certificate_is_of_another_authority(tmp_path: Path) -> None:
    """To make the call again would not help."""
    context, _ = tls_contexts(tmp_path)

    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(8)
            connection.sendall(b"S")
            context.wrap_socket(connection, server_side=True).close()

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        authority = certifi.where()
        options = f"sslmode=verify-full&sslrootcert={authority}&gssencmode=disable"
        url = f"postgresql://me@127.0.0.1:{listening.getsockname()[1]}/bots?{options}"
        refused(url, "denied", "certificate verify failed", hint="certificates")
        thread.join()


def test_one_that_cannot_store_every_text(postgres: Postgres) -> None:
    name = new_schema()
    postgres.do(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    url = postgres.url().replace("/postgres?", f"/{name}?")
    try:
        refused(url, "failed", "in LATIN1", "needs UTF8", hint="ENCODING 'UTF8'")
        with pytest.raises(FleetError, match="in LATIN1") as caught:
            create_tables(url)
        assert caught.value.code == "fleet_unusable"
    finally:
        postgres.do(f"DROP DATABASE {name} WITH (FORCE)")


def test_one_that_is_too_old() -> None:
    """A server that says so, and nothing else."""

    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            (length,) = connection.recv(4)[-1:]
            connection.recv(length)
            status = b"server_version\x0013.9\x00"
            ready = b"R\x00\x00\x00\x08\x00\x00\x00\x00" + b"S" + (len(status) + 4).to_bytes(4) + status
            connection.sendall(ready + b"Z\x00\x00\x00\x05I")
            connection.recv(9999)

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        url = f"postgresql://me@127.0.0.1:{listening.getsockname()[1]}/bots?sslmode=disable&gssencmode=disable"
        refused(url, "version", "PostgreSQL 13", "14 or newer", hint="upgrade")
        thread.join()


def test_one_with_a_full_disk(postgres: Postgres, schema: str, ledger: Ledger) -> None:
    postgres.do(
        f"CREATE FUNCTION {schema}.full() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END$$",
        f"CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.payments EXECUTE FUNCTION {schema}.full()",
    )
    with pytest.raises(LedgerError, match="no space is left") as caught:
        submitted(ledger)
    assert caught.value.code == "ledger_failed"
    assert ledger.history() == []


def test_one_that_was_emptied(postgres: Postgres, schema: str, ledger: Ledger) -> None:
    payment = submitted(ledger, owner="me", until=NOW + 60)
    postgres.do(f"TRUNCATE {schema}.ledger")
    uses: list[Callable[[], object]] = [
        lambda: submitted(ledger),
        lambda: resubmit(ledger, payment),
        lambda: ledger.get(payment.id),
    ]
    for use in uses:
        with pytest.raises(LedgerError, match="has lost its content") as caught:
            use()
        assert (caught.value.code, "backup" in caught.value.hint) == ("ledger_lost", True)


@each_of("emptied", ["payments", "payments, sums, runs, settings"])
def test_one_whose_payments_are_gone(postgres: Postgres, emptied: str) -> None:
    """Its row is left: no call begins as if nothing had been paid."""
    schema = new_schema()
    create_tables(postgres.url(), schema=schema)
    with Ledger.postgres(postgres.url(), schema=schema) as ledger:
        ledger.check()
        submitted(ledger)
        tables = ", ".join(f"{schema}.{table}" for table in emptied.split(", "))
        postgres.do(f"TRUNCATE {tables}")
        uses: list[Callable[[], object]] = [
            lambda: ledger.overview(Lookup(now=NOW, budget=PLENTY, fingerprint="a call")),
            ledger.check,
            lambda: create_tables(postgres.url(), schema=schema),
        ]
        for use in uses:
            with pytest.raises(LedgerError, match="has lost its content") as caught:
                use()
            assert (caught.value.code, "backup" in caught.value.hint) == ("ledger_lost", True)


@each_of(
    "table, code",
    [("runs", "ledger_damaged"), ("payments", "ledger_lost"), ("once", "fleet_lost"), ("members", "fleet_lost")],
)
def test_one_that_lacks_a_table(postgres: Postgres, table: str, code: str) -> None:
    """It is seen before it is needed: by what `trade doctor` and `trade fleet init` ask."""
    schema = new_schema()
    create_tables(postgres.url(), schema=schema)
    postgres.do(f"DROP TABLE {schema}.{table}")
    with pytest.raises(FleetError, match=f"lacks tables of tradesdk in its schema {schema}: {table}") as caught:
        create_tables(postgres.url(), schema=schema)
    assert (caught.value.code, "backup" in caught.value.hint) == ("fleet_lost", True)
    with Ledger.postgres(postgres.url(), schema=schema) as ledger, ExitStack() as stack:
        if code.startswith("ledger"):
            status(postgres.url(), schema=schema)
            found = stack.enter_context(pytest.raises(TradeError))
            ledger.check()
        else:
            ledger.check()
            found = stack.enter_context(pytest.raises(TradeError, match=table))
            status(postgres.url(), schema=schema)
    assert found.value.code == code


def test_a_restored_dump_is_analyzed(postgres: Postgres, schema: str) -> None:
    """Nothing is known of its tables: a plan for an empty one would read all of it."""

    def unknown() -> int:
        with psycopg.connect(postgres.url()) as db:
            statement = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND reltuples < 0"
            row = db.execute(f"{statement} AND relkind = 'r'".encode(), (schema,)).fetchone()
        assert row is not None
        return int(row[0])

    assert unknown() > 9
    assert not create_tables(postgres.url(), schema=schema)
    assert unknown() == 0


def test_a_member_that_is_cut_off_does_not_block_the_others_for_hours(postgres: Postgres) -> None:
    """Nor in the middle of a round trip, where a transaction is not idle."""
    with closing(connect(server(postgres.url()))) as db:
        wanted = {"tcp_keepalives_idle": "3", "idle_in_transaction_session_timeout": "5s", "tcp_user_timeout": "5000"}
        if db.pgconn.server_version >= 170000:
            wanted["transaction_timeout"] = "10s"
        found = db.run([("SELECT current_setting(?)", (name,)) for name in wanted])
    assert found == [[(value,)] for value in wanted.values()]


def swap(ledger: Ledger, other: Ledger) -> None:
    """Give each the session of the other one, as a pooler in transaction mode does."""
    ours, others = (cast(PostgresEngine, one._engine).link.db for one in (ledger, other))
    assert ours is not None
    assert others is not None
    for name in ("_db", "pgconn", "_selector"):
        mine = getattr(ours, name)
        setattr(ours, name, getattr(others, name))
        setattr(others, name, mine)


def test_one_behind_a_pooler_runs_nothing_in_the_session_of_another_program(
    postgres: Postgres, schema: str, ledger: Ledger
) -> None:
    """What one has set or prepared, the other must not use."""
    with Ledger.postgres(postgres.url(), schema=schema) as other:
        before = submitted(ledger)
        uses: list[Callable[[int], object]] = [
            lambda number: submitted(ledger, draft(id=f"pay_{number}", fingerprint=f"{number}")),
            lambda number: resubmit(ledger, before).submissions == 2,
            lambda number: ledger.history()[-1].id == before.id,
        ]
        for number, use in enumerate(uses):
            ledger.setting("x")
            other.setting("x")
            swap(ledger, other)
            assert use(number), "in a new session"


def test_a_pooler_that_gives_each_transaction_another_session_is_refused(
    postgres: Postgres, schema: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pooled(place: Server, seconds: float) -> Connection:
        db = connect(place, seconds)
        db.session += " of another program"
        return db

    monkeypatch.setattr(link, "connect", pooled)
    with pytest.raises(LedgerError, match="as a pooler does") as caught:
        submitted(ledger)
    assert (caught.value.code, "of the database itself" in caught.value.hint) == ("ledger_denied", True)


def test_a_payment_after_a_long_rest_takes_no_longer_than_others(
    postgres: Postgres, schema: str, ledger: Ledger
) -> None:
    """Answers that are kept no longer are deleted some at a time: others wait for the lock meanwhile."""
    payment = submitted(ledger, draft(id="pay_0", fingerprint="0", purchase="0"), owner="me")
    told(ledger, payment, ReasonCode.DELIVERED, owner="me")
    columns = postgres.columns(schema, "payments").removeprefix("seq, ")
    own = {"id": "'pay_' || n", "fingerprint": "n::text", "purchase": "n::text", "reply": "'kept'", "counted": "0"}
    values = ", ".join(own.get(name, name) for name in columns.split(", "))
    postgres.do(
        f"INSERT INTO {schema}.payments ({columns}) SELECT {values} FROM {schema}.payments, "  # noqa: S608
        "generate_series(1, 50) AS n WHERE id = 'pay_0'"
    )
    later, left = NOW + 31 * 86400, []
    for number in range(3):
        submitted(ledger, draft(id=f"later_{number}", fingerprint=f"later {number}"), now=later)
        left.append(sum(one.reply is not None for one in ledger.history(limit=2000)))
    assert left == [30, 10, 0]


def test_one_that_another_release_has_changed(postgres: Postgres, schema: str, ledger: Ledger) -> None:
    payment = submitted(ledger)
    uses: list[Callable[[], object]] = [
        lambda: resubmit(ledger, payment),
        lambda: submitted(ledger),
        lambda: ledger.get(payment.id),
    ]
    for version in (1, 99, 0, -1):
        postgres.do(f"UPDATE {schema}.ledger SET version = {version}")  # noqa: S608
        for use in uses:
            with pytest.raises(LedgerError) as caught:
                use()
            assert caught.value.code == ("ledger_version" if version > 0 else "ledger_damaged")
            if version > 0:
                assert f"is {'older' if version == 1 else 'newer'} than this release" in caught.value.message
                assert "mv " not in caught.value.hint, "no file is to be moved"
        with pytest.raises(LedgerError, match=f"version (is )?{version}"):
            create_tables(postgres.url(), schema=schema)


def test_one_that_ends_a_connection_is_used_again(postgres: Postgres, ledger: Ledger) -> None:
    """As after its restart: the next call connects again."""
    payment = submitted(ledger)
    postgres.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tradesdk'")
    assert resubmit(ledger, payment).submissions == 2
    assert ledger.spending(PLENTY, now=NOW).total.counted == 30_000


@pytest.mark.long  # a second passes
def test_one_that_another_program_has_locked(postgres: Postgres, schema: str) -> None:
    with (
        psycopg.connect(postgres.url()) as other,
        Ledger.postgres(postgres.url(), schema=schema, timeout=0) as ledger,
    ):
        submitted(ledger)
        other.execute(f"UPDATE {schema}.ledger SET version = version".encode())  # noqa: S608
        with pytest.raises(LedgerError) as caught:
            submitted(ledger)
        assert caught.value.code == "ledger_locked"
        assert len(ledger.history()) == 1  # reading goes on
        other.rollback()
        submitted(ledger)


def test_a_statement_that_failed_with_another_can_be_made_again(postgres: Postgres) -> None:
    """Whether it was prepared before the other one failed or not. The error is of the one that failed."""
    with closing(MemberLink(server(postgres.url()))) as link:
        link.run(("SELECT 1", ()))
        for times in range(6):
            statement = f"SELECT {times}", ()
            for _ in range(times):
                link.run(statement)
            with pytest.raises(FleetError, match="changed meanwhile"):
                link.run(*[statement] * times, ("SELECT 1 / $1::int", (0,)), statement, ("SELECT 2", ()))
            assert link.run(statement, statement) == [[(times,)]] * 2
        assert not link.in_transaction


def test_an_interrupt_in_a_round_trip_leaves_nothing_open(postgres: Postgres, ledger: Ledger) -> None:
    first = submitted(ledger)
    for number in range(2):
        with patch.object(DefaultSelector, "select", side_effect=[KeyboardInterrupt]), pytest.raises(KeyboardInterrupt):
            submitted(ledger)
        assert ledger.history() == [first], number
    second = submitted(ledger)
    assert ledger.history() == [second, first]
    with closing(MemberLink(server(postgres.url()))) as link:
        link.run(("BEGIN", ()))
        with patch.object(DefaultSelector, "select", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            link.run(("SELECT 1", ()))
        assert not link.in_transaction
        assert link.run(("SELECT 1", ())) == [[(1,)]]


WITHOUT_PSYCOPG = """
import sys
sys.modules["psycopg"] = None
from tradesdk import ConfigError, Ledger, TradeClient, fleet

url, trade = "postgresql://host/db", TradeClient(api_key="k", base_url="http://127.0.0.1:9")
for use in (
    lambda: Ledger.postgres(url),
    lambda: fleet.create_tables(url),
    lambda: fleet.status(url),
    lambda: fleet.FleetRateLimiter(url),
    lambda: fleet.FleetRelay(trade, chain=8453, url=url),
    lambda: fleet.FleetSignals(chain=8453, client=trade, url=url),
):
    try:
        use()
    except ConfigError as error:
        print(error.code, error.message)
trade.close()
"""


@pytest.mark.long
def test_without_its_package_it_says_how_to_install_that() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PSYCOPG], capture_output=True, text=True, check=False)
    said = f"missing_package a fleet needs a package that is not installed: {install('psycopg')}\n"
    assert (done.stdout, done.stderr) == (said * 6, "")


BAD_URLS = [
    "",
    "localhost",
    "redis://localhost",
    "postgresql://me:swordfish@host/x?nonsense=1",
    "sqlite:///x",
    "postgresql://me@host/\ud83d",
]


@each_of("url", BAD_URLS)
def test_what_is_no_url(url: str) -> None:
    uses: list[Callable[[], object]] = [lambda: Ledger.postgres(url), lambda: create_tables(url)]
    for use in uses:
        with pytest.raises(ConfigError) as caught:
            use()
        assert caught.value.code == "invalid_fleet_url"
        assert "postgresql://USER@HOST" in caught.value.message
        assert "swordfish" not in str(caught.value)


def test_the_url_may_come_from_the_environment(
    postgres: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRADE_FLEET", postgres.url())
    with Ledger.postgres(schema=schema) as ledger:
        submitted(ledger)
    monkeypatch.delenv("TRADE_FLEET")
    with pytest.raises(ConfigError, match="TRADE_FLEET"):
        Ledger.postgres()


@each_of("schema", ["", "Upper", "a-b", "pg_bots", 'x"; DROP TABLE payments', "x" * 64])
def test_what_is_no_schema(schema: str) -> None:
    with pytest.raises(TradeError, match="lowercase"):
        Ledger.postgres("postgresql://host/db", schema=schema)


def test_a_forked_child_connects_for_itself(ledger: Ledger) -> None:
    first = submitted(ledger)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            second = submitted(ledger, draft(id="pay_child", fingerprint="child"))
            code = 0 if ledger.history() == [second, first] else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert [payment.id for payment in ledger.history()] == ["pay_child", first.id]
