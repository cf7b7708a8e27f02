"""PgBouncer between a program and its ledger. `TRADE_PGBOUNCER` names the program: scripts/soak fleet plays this."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from tradesdk import Budget, Ledger, LedgerError, LocalSigner, MarketClient
from tradesdk.fleet import create_tables
from tradesdk_mock import MockServer

from .._ports import free_port
from .._postgres import Postgres, new_schema

PROGRAM = os.environ.get("TRADE_PGBOUNCER")
pytestmark = [pytest.mark.long, pytest.mark.skipif(PROGRAM is None, reason="TRADE_PGBOUNCER is not set")]

NOBODY = 65534
SETTINGS = """
[databases]
postgres = host=127.0.0.1 port={server} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = any
pool_mode = {mode}
ignore_startup_parameters = extra_float_digits,options
unix_socket_dir =
"""


@contextmanager
def pooler(postgres: Postgres, mode: str) -> Iterator[str]:
    """The URL of the same database behind PgBouncer."""
    port, settings = free_port(), postgres.folder / f"{mode}.ini"
    settings.write_text(SETTINGS.format(server=postgres.port, port=port, mode=mode))
    settings.chmod(0o644)
    user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}  # it refuses to run as root
    with subprocess.Popen([str(PROGRAM), str(settings)], stderr=subprocess.PIPE, **user) as process:  # type: ignore[call-overload]
        url = postgres.url().replace(f":{postgres.port}/", f":{port}/")
        try:
            for _ in range(500):
                assert process.poll() is None, process.stderr.read()
                with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=5):
                    break
                time.sleep(0.02)
            else:
                raise AssertionError("the pooler does not answer")
            yield url
        finally:
            process.terminate()


@pytest.fixture
def schema(postgres: Postgres) -> str:
    name = new_schema()
    create_tables(postgres.url(), schema=name)
    return name


def buyer(mock: MockServer, signer: LocalSigner, ledger: Ledger) -> MarketClient:
    return MarketClient(base_url=mock.url, signer=signer, budget=Budget(total="1"), ledger=ledger)


def test_behind_one_in_transaction_mode_each_payment_is_right_or_refused(
    postgres: Postgres, schema: str, signer: LocalSigner
) -> None:
    """The session that the ledger had last is taken each time. A new connection is made, or the payment is refused."""
    refused: list[str] = []
    with (
        pooler(postgres, "transaction") as url,
        MockServer() as mock,
        psycopg.connect(url) as one,
        psycopg.connect(url) as two,
        Ledger.postgres(url, schema=schema) as ledger,
        buyer(mock, signer, ledger) as market,
    ):
        others = one, two
        for number in range(20):
            others[number % 2].execute("SELECT 1")  # takes the session that the ledger had last
            others[1 - number % 2].rollback()
            try:
                market.token_prices(["ETH"])
            except LedgerError as error:
                refused.append(f"{error.code}: {error.message}")
        mock.payments.assert_charged(times=20 - len(refused))
    assert [one for one in refused if not ("ledger_denied: " in one and "pooler" in one)] == []
    with Ledger.postgres(postgres.url(), schema=schema) as own:
        own.check()
        assert own.spending(Budget.unlimited(), now=time.time()).total.counted == (20 - len(refused)) * 30_000


def test_one_in_session_mode_is_like_the_server(postgres: Postgres, schema: str, signer: LocalSigner) -> None:
    with (
        pooler(postgres, "session") as url,
        MockServer() as mock,
        Ledger.postgres(url, schema=schema) as ledger,
        buyer(mock, signer, ledger) as market,
    ):
        for _ in range(5):
            market.token_prices(["ETH"])
        mock.payments.assert_charged(times=5)
