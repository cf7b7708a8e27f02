"""A keyring in memory, in place of the system's."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest


class KeyringError(Exception):
    """What every backend raises."""


class Ring:
    """A backend; `broken` is why it does not answer."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.broken: str | None = None

    def _answer(self) -> None:
        if self.broken is not None:
            raise KeyringError(self.broken)

    def get_password(self, service: str, name: str) -> str | None:
        self._answer()
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self._answer()
        self.kept[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        self._answer()
        del self.kept[service, name]


def install(monkeypatch: pytest.MonkeyPatch, backend: object) -> None:
    """Makes `import keyring` give a module whose backend that is."""
    module, errors = ModuleType("keyring"), ModuleType("keyring.errors")
    vars(errors)["KeyringError"] = KeyringError
    vars(module).update(get_keyring=lambda: backend, errors=errors)
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)


def remove(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `import keyring` fail, as where it is not installed."""
    monkeypatch.setitem(sys.modules, "keyring", None)
