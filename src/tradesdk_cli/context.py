"""The session of a command. Help and completion never need one, so it is imported late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from tradesdk_cli.session import Session


def session(ctx: typer.Context, *, endings: Iterable[str] = ()) -> AbstractContextManager[Session]:
    """The session of the command that runs in `ctx`; closed at the end. It knows these `endings` of `--out`, too."""
    from tradesdk_cli.session import open_session  # completion and help never need it

    return open_session(ctx, endings=endings)
