"""Libraries that recover the signers of payments and wallets: loaded with the first signature, not with the server."""

from __future__ import annotations

import sys
from importlib import import_module

# Half the order of the curve secp256k1. Contracts reject signatures with a larger s (EIP-2).
HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


class Libraries:
    """Modules that take up to half a second to import."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.loaded = False

    def load(self) -> None:
        # They raise the recursion limit so far that deeply nested input would end the process.
        limit = sys.getrecursionlimit()
        for name in self._names:
            import_module(name)
        sys.setrecursionlimit(limit)
        self.loaded = True


TRANSFERS = Libraries("eth_keys.datatypes", "eth_utils.crypto")
MESSAGES = Libraries("eth_account")
