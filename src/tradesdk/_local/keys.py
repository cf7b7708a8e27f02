"""Where the API keys of profiles are saved: each in its own file, or in the system's keyring."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from .._system.interrupts import failures
from .._values.text import printable
from .files import invalid_profile, own_text

_IN_A_FILE = "trade login --file saves the key in a file that only you can read"


class KeyStore:
    """The API keys that `trade login` saves.

    Args:
        folder: the folder of `config.toml`.
        home: `TRADE_HOME`, if it is set: each home has its own keys in the keyring.
    """

    def __init__(self, folder: Path, home: Path | None) -> None:
        self.folder = folder / "keys"
        self._service = "trade" if home is None else f"trade {home}"

    def file(self, profile: str) -> Path:
        """The file for a profile's key."""
        return self.folder / profile

    def account(self, profile: str) -> tuple[str, str]:
        """Service and user name of a profile's key in the keyring."""
        return self._service, profile

    def where(self, profile: str, store: str) -> str:
        """Where a key is saved, for people; `store` is `file` or `keyring`."""
        return f"the keyring ({self._service})" if store == "keyring" else str(self.file(profile))

    def read(self, profile: str, store: str) -> str:
        """The key.

        Raises:
            ConfigError: there is none, others can read it, or it cannot be read.
        """
        if store == "keyring":
            with self.keyring() as ring:
                found = ring.get_password(*self.account(profile)) or ""
        else:
            found = own_text(self.file(profile), forbidden=0o077) or ""
        if not found.strip():
            raise invalid_profile(
                f"profile {profile} saves its key in {printable(self.where(profile, store), 400)}, and there is none",
                f"save it again: trade login --profile {profile}",
            )
        return str(found.strip())

    @contextlib.contextmanager
    def keyring(self) -> Iterator[Any]:
        """The system's keyring.

        Raises:
            ConfigError: it is not installed, the system has none, or it failed inside the `with` block.
        """
        try:
            keyring: Any = import_module("keyring")  # an extra: untyped, and maybe not installed
            errors: Any = import_module("keyring.errors")
        except ImportError:
            raise invalid_profile(
                "the keyring is not installed", f'pip install "keyring>=25,<27"; or: {_IN_A_FILE}'
            ) from None
        backend: Any = keyring.get_keyring()
        if type(backend).__module__ in ("keyring.backends.fail", "keyring.backends.null"):
            raise invalid_profile("this system has no keyring that can be used", _IN_A_FILE)
        try:
            yield backend
        except failures(errors.KeyringError) as error:
            # Its text may come from anywhere, but never contains the key: backends get the key as a value.
            reason = printable(" ".join(str(error).split()), 200) or type(error).__name__
            raise invalid_profile(f"the keyring failed: {reason}", f"unlock it; or: {_IN_A_FILE}") from None
