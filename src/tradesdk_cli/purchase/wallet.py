"""The wallet of a command that buys: this person's own, or in a mock world a file with play money."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import atomic_write
from tradesdk_cli.wallet import KEY, KEYSTORE, Wallet, own_wallet

if TYPE_CHECKING:
    from pathlib import Path

    from tradesdk import LocalSigner
    from tradesdk_cli.session import Session


def wallet_of(run: Session, named: Path | None) -> Wallet | None:
    """The wallet that pays; `named` is what --wallet says. None when there is none.

    Raises:
        ConfigProblem, ConfigError: there is one, and it cannot be used.
    """
    return _play_money(run) if run.settings.mock else own_wallet(run.settings, named)


def _play_money(run: Session) -> Wallet:
    """The wallet of a mock world. It follows from the world's seed, so that a rehearsal can be repeated."""
    from tradesdk_cli.mockworld import wallet_file

    mock = run.mock
    path = wallet_file(run.settings)
    try:
        address, key = _kept(path) or _make(path, mock.service.world.seed)
    except OSError as error:
        raise ConfigProblem(f"cannot use {path}: {error.strerror}", "TRADE_HOME chooses another folder") from None
    ours = [name for name in (KEY, KEYSTORE) if os.environ.get(name)]
    if ours:
        run.out.note(f"{' and '.join(ours)} left alone: with --mock, play money is paid by {address}")

    def fetch() -> LocalSigner:
        from tradesdk import LocalSigner

        return LocalSigner.from_key(key)

    return Wallet(address, fetch)


def _kept(path: Path) -> tuple[str, str] | None:
    import json

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return str(found["address"]), str(found["key"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ConfigProblem(f"{path} is damaged", "remove it: play money has a new wallet at once") from None


def _make(path: Path, seed: int) -> tuple[str, str]:
    import json
    from hashlib import sha256

    from tradesdk import LocalSigner

    key = "0x" + sha256(b"play money of the mock world %d" % seed).hexdigest()
    address = LocalSigner.from_key(key).address
    about = "play money of a mock world; anybody can know this key, so never send real money to it"
    atomic_write(path, json.dumps({"address": address, "key": key, "about": about}, indent=2), mode=0o600)
    return address, key
