"""What the end-to-end tests of both flavours share."""

from __future__ import annotations

import pytest

from tradesdk import LocalSigner


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    return LocalSigner.from_key("0x" + "2e" * 32)
