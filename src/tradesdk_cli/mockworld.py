"""The embedded mock of `--mock`: the service in this process, without a socket, with its state in a file."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import file_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tradesdk_cli.config.settings import Settings
    from tradesdk_mock import MockServer, MockService


FIRST_SIGNAL_WITHIN = 2.0
CATCH_UP_LIMIT = 24 * 3600.0
"""Seconds of the market that a command catches up on; anything older is skipped."""

MOCK_TENANT = "me"
"""The tenant with the agents and payments."""
_USUAL_KEY = f"mock_full_{MOCK_TENANT}"
MOCK_KEYS = ("mock_", "mocksk_")
"""The beginning of a mock's keys."""

LEDGER_ENDS = ("-signed", "", "-wal", "-shm", "-journal", "-approvals")
"""Suffixes of a ledger's files. The first is the marker that a ledger must exist, so it is removed first."""


def mock_key(settings: Settings) -> tuple[str, str]:
    """The key for the embedded mock, and its source.

    A key of a real service is not used; a key of a mock chooses scope, plan and tenant.
    """
    given = settings.api_key
    if given is not None and given.startswith(MOCK_KEYS):
        return given, "TRADE_API_KEY"
    return _USUAL_KEY, "the mock"


def world_file(settings: Settings) -> Path:
    """The file of a mock world."""
    return settings.data_folder() / "mock" / f"{settings.world}.sqlite3"


def ledger_file(settings: Settings) -> Path:
    """The ledger of a mock world: play money is kept out of the real ledger."""
    return world_file(settings).with_suffix(".ledger.sqlite3")


def forget_payments(settings: Settings) -> None:
    """Remove the ledger of a mock world: after a reset, its payments and recipient no longer exist."""
    ledger = ledger_file(settings)
    for file in (ledger.with_name(ledger.name + end) for end in LEDGER_ENDS):
        file.unlink(missing_ok=True)


def mock_server_class() -> type[MockServer]:
    """The mock's server."""
    try:
        from tradesdk_mock import MockServer
    except ModuleNotFoundError as missing:
        what, _, how = str(missing).partition(": ")  # the mock's error has the hint
        raise ConfigProblem(what, how or None) from None
    return MockServer


def usable_file(settings: Settings) -> Path:
    """The file of a mock world, which may not exist; creates its folder."""
    path, hint = world_file(settings), "TRADE_HOME chooses another folder"
    with file_errors(ConfigProblem, f"cannot write {path.parent}", hint):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigProblem(f"cannot write {path}", hint)
    return path


@contextmanager
def open_world(settings: Settings) -> Iterator[MockService]:
    """The service with the saved state; a new world is populated first."""
    path = usable_file(settings)
    from tradesdk_mock import MockServerError, MockService

    with ExitStack() as stack:
        try:
            service = stack.enter_context(MockService(db=path, first_within=FIRST_SIGNAL_WITHIN))
            service.world.catch_up_limit = CATCH_UP_LIMIT
            service.populate(MOCK_TENANT)
        except MockServerError as error:
            hint = f"move {path} away to start over, or choose another --world, or another disk with TRADE_HOME"
            raise ConfigProblem(str(error), hint) from None
        yield service
