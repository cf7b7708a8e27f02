"""The wallet that pays for market data: its key, which is opened at the first signature.

The key comes from a variable or an encrypted keystore. It is never an option and never shown.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tradesdk_cli.config.files import expanded
from tradesdk_cli.errors import CliError, ConfigProblem
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from tradesdk import LocalSigner
    from tradesdk_cli.config.settings import Settings

KEY = "TRADE_WALLET_KEY"
KEYSTORE = "TRADE_KEYSTORE"
PASSWORD_FILE = "TRADE_KEYSTORE_PASSWORD_FILE"  # noqa: S105 - the name of a variable
KEY_HINT = "a private key is 64 hexadecimal digits, with or without 0x in front; an address is not one"


class Wallet:
    """Signs with a key that is fetched on first use.

    Attributes:
        failure: why the key could not be fetched; None without a failure.
        opened: whether the key has been fetched.
        signatures: the number of signatures.
    """

    def __init__(self, address: str | None, fetch: Callable[[], LocalSigner]) -> None:
        self._address = address
        self._fetch = fetch
        self._signer: LocalSigner | None = None
        self.failure: Exception | None = None
        self.signatures = 0

    @property
    def opened(self) -> bool:
        return self._signer is not None

    @property
    def address(self) -> str:
        """The address; fetches the key if nothing else has it."""
        return self._open().address if self._address is None else self._address

    def sign_digest(self, digest: bytes, /) -> bytes:
        """Sign 32 bytes, as the SDK's signers do."""
        signer = self._open()
        self.signatures += 1
        return signer.sign_digest(digest)

    def purchase_secret(self) -> bytes:
        """The secret for named purchases, as in the SDK's signers."""
        return self._open().purchase_secret()

    def _open(self) -> LocalSigner:
        from tradesdk import TradeError

        if self._signer is None:
            try:
                self._signer = self._fetch()
            except (TradeError, CliError) as error:
                self.failure = error
                raise
        return self._signer

    def __repr__(self) -> str:
        return f"Wallet({self._address})"


def own_wallet(settings: Settings, named: Path | None) -> Wallet | None:
    """The user's wallet; `named` is the value of --wallet. None when there is none."""
    from tradesdk import ConfigError, LocalSigner, keystore_address

    if named is None and os.environ.get(KEY):
        return Wallet(None, lambda: LocalSigner.from_env(KEY))
    path = keystore_path(settings, named)
    if named is None and not os.environ.get(KEYSTORE) and not path.exists():
        return None
    try:
        address: str | None = keystore_address(path)
    except ConfigError as error:
        if error.code != "keystore_without_address":
            raise
        address = None
    return Wallet(address, lambda: LocalSigner.from_keystore(path, ask_password(path)))


def keystore_path(settings: Settings, named: Path | None) -> Path:
    """The file of the keystore: --wallet, TRADE_KEYSTORE, or `keystore.json` in the data folder."""
    if named is not None:
        return expanded(str(named))
    given = os.environ.get(KEYSTORE)
    return expanded(given) if given else settings.data_folder() / "keystore.json"


# Play money


def play_money(seed: int, note: Callable[[str], object]) -> Wallet:
    """The wallet of a mock world, made from the world's seed, so that runs can be repeated."""
    ours = [name for name in (KEY, KEYSTORE) if os.environ.get(name)]
    if ours:
        note(f"{' and '.join(ours)} ignored: with --mock, play money pays")

    def fetch() -> LocalSigner:
        from hashlib import sha256

        from tradesdk import LocalSigner

        return LocalSigner.from_key(sha256(b"play money of the mock world %d" % seed).hexdigest())

    return Wallet(None, fetch)


# Passwords


def ask_password(keystore: Path, *, new: bool = False) -> Callable[[], str] | None:
    """Asks for the password of a keystore on the terminal, of a `new` one twice.

    None: the SDK reads it from its password file.
    """

    def typed() -> str:
        if not can_hide():
            hint = f"{PASSWORD_FILE} names a file, readable by you only, whose first line is the password"
            raise ConfigProblem(f"the keystore {keystore} needs a password, and there is no terminal to ask on", hint)
        given = hidden(f"{'a password for' if new else 'password of'} {keystore}: ")
        if given and new and hidden("repeat the password: ") != given:
            raise CliError("the passwords differ; nothing was written")
        return given

    return None if os.environ.get(PASSWORD_FILE) else typed


def can_hide() -> bool:
    """True when a person can type without echo."""
    return sys.stderr.isatty()


def hidden(prompt: str) -> str:
    """Text typed without echo."""
    import getpass

    try:
        return getpass.getpass(visible(prompt))
    except EOFError:
        raise CliError("nothing was entered") from None
