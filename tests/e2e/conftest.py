"""What the end-to-end tests of both flavours share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tradesdk import LocalSigner
from tradesdk.fleet import create_tables

from .._postgres import Postgres, new_schema
from ._fleetsignals import Fleet


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    return LocalSigner.from_key("0x" + "2e" * 32)


@pytest.fixture(scope="session")
def tables(postgres: Postgres) -> str:
    """A schema with the tables of a fleet: to empty them takes a tenth of making them."""
    name = new_schema()
    create_tables(postgres.url(), schema=name)
    return name


@pytest.fixture
def fleet(postgres: Postgres, tables: str) -> Iterator[Fleet]:
    made = Fleet(postgres, tables)
    yield made
    made.close()
