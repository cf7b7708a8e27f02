"""What the end-to-end tests of both flavours share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tradesdk import LocalSigner

from .._postgres import Postgres
from ._fleetsignals import Fleet


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    return LocalSigner.from_key("0x" + "2e" * 32)


@pytest.fixture
def fleet(postgres: Postgres) -> Iterator[Fleet]:
    made = Fleet(postgres)
    yield made
    made.close()
