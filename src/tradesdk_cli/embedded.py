"""The embedded mock of `--mock`: a server inside this process whose state is a file that stays."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tradesdk_cli.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tradesdk_cli.config import Settings
    from tradesdk_mock import MockServer

TENANT = "me"
KEY = f"mock_full_{TENANT}"


def world_file(settings: Settings) -> Path:
    """The file of a mock world."""
    return settings.data_folder() / "mock" / f"{settings.world}.sqlite3"


def mock_server_class() -> type[MockServer]:
    """The mock's server.

    Raises:
        ConfigProblem: the mock's own dependencies are not installed.
    """
    try:
        from tradesdk_mock import MockServer
    except ModuleNotFoundError as missing:
        raise ConfigProblem(
            f"the mock needs {missing.name}, which is not installed", "pip install 'tradesdk[mock]'"
        ) from None
    return MockServer


@contextmanager
def open_world(settings: Settings) -> Iterator[MockServer]:
    """A running server with the state that earlier commands left; a new world is filled first.

    Raises:
        ConfigProblem: the folder cannot be written, or the mock is not installed.
    """
    server_class = mock_server_class()
    path = world_file(settings)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigProblem(
            f"cannot write {path.parent}: {error.strerror}", "TRADE_HOME chooses another folder"
        ) from None
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigProblem(f"cannot write {path}", "TRADE_HOME chooses another folder")
    from tradesdk_mock import MockServerError

    with ExitStack() as stack:
        try:
            server = stack.enter_context(server_class(db=path))
            server.populate(TENANT)
        except MockServerError as error:
            raise ConfigProblem(str(error), f"move {path} away to begin anew, or choose another --world") from None
        yield server
