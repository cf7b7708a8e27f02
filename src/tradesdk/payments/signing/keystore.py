"""Encrypted keystore files, version 3, in which wallets keep a private key. eth-account does the cryptography."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..._http.arguments import is_whole
from ..._system import private_files
from ..._system.interrupts import failures
from ..._values.frames import hides_locals
from ..._values.hints import of_file
from ..._values.http import parse_json
from ..._values.text import is_url, printable, without_keys
from ...errors import ConfigError, ErrorCode, InvalidArgumentError
from .secp256k1 import Opened, checksummed, eth_account, key_bytes, looks_like_a_key, opened

Password = str | bytes | Callable[[], str | bytes]
"""A password, or a function that returns it, called after all other checks. Text is encoded as UTF-8."""

WORK = 1 << 18
"""scrypt's n for new keystores: opening takes 256 MiB and about a second."""

PASSWORD_FILE = "TRADE_KEYSTORE_PASSWORD_FILE"  # noqa: S105 - the name of a variable
_MOST_BYTES = 64 * 1024
_MOST_PASSWORD = 4096
_MOST_MEMORY = 1 << 30  # for a file from elsewhere
_MOST_WORK = 1 << 25
_MOST_NEW_WORK = 1 << 20
_MOST_ITERATIONS = 100_000_000
_HEX = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2})*)")


@hides_locals
def create_keystore(
    path: str | os.PathLike[str], password: Password | None = None, key: str | bytes | None = None, *, work: int = WORK
) -> str:
    """Write a new keystore and return its address. The file is complete and synced, or missing.

    Args:
        path: the file; `~` is the home directory. Missing folders are created with mode 0700; the file has 0600.
        password: the password; by default the first line of the file that TRADE_KEYSTORE_PASSWORD_FILE names, which
            only you may read. Without it the key is lost.
        key: the private key, in the form that `LocalSigner.from_key` takes; by default a new random one.
        work: scrypt's n, a power of two. Doubling it doubles the time and memory to open the file, and to guess.

    Raises:
        ConfigError: the file exists or cannot be written, the password is empty, or the key is not valid. The error
            shows neither key nor password. Errors of the password's function are passed on.
        InvalidArgumentError: `work` is not a power of two from 2 to 2^20.
    """
    if not is_whole(work) or not 2 <= work <= _MOST_NEW_WORK or work & (work - 1):
        message = f"work must be a power of two from 2 to {_MOST_NEW_WORK} (2^20)"
        raise InvalidArgumentError(message, hint="write work=2**18, or leave it out")
    work = int(work)
    file, shown = _named(path)
    private_files.remove_parts(*os.path.split(file.absolute()))
    if os.path.lexists(file):
        raise _exists(shown)
    account = eth_account()
    raw = bytes(account.create().key) if key is None else key_bytes(key)
    secret = _password(password, shown)
    if not secret:
        raise ConfigError(
            "the password must not be empty",
            hint="choose a password: without one, anybody who gets the file has the money",
        )
    document = _encrypted(account, raw, secret, work, shown)
    try:
        path = str(file.absolute())
        private_files.make_folder(os.path.dirname(path))
        private_files.create_whole(path, json.dumps(document, indent=2).encode() + b"\n")
    except FileExistsError:
        raise _exists(shown) from None
    except failures(OSError) as error:
        message = f"the keystore {shown} cannot be written: {error.strerror}"
        raise ConfigError(message, code="invalid_keystore", hint=of_file(error)) from None
    return checksummed(document["address"])


@hides_locals
def keystore_address(path: str | os.PathLike[str]) -> str:
    """The address of a keystore's key, checksummed. It needs no password.

    Raises:
        ConfigError: the file is missing, unreadable, open to others, damaged, of another version or without an address.
    """
    file, shown = _named(path)
    named = _address(_read(file, shown), shown)
    if named is None:
        raise ConfigError(
            f"the keystore {shown} does not contain its address; opening it with the password shows it",
            code="keystore_without_address",
        )
    return named


def unlock(path: str | os.PathLike[str], password: Password | None) -> Opened:
    """The key of a keystore, ready to sign. Errors as for `LocalSigner.from_keystore`."""
    file, shown = _named(path)
    private_files.remove_parts(*os.path.split(file.absolute()))
    document = _read(file, shown)
    named = _address(document, shown)
    ready = _decrypted(document, _password(password, shown), shown)
    if named is not None and ready.address != named:
        raise _damaged(shown, f": its address is {named}, and its key belongs to {ready.address}")
    return ready


def _named(path: str | os.PathLike[str]) -> tuple[Path, str]:
    text: object = None
    with contextlib.suppress(TypeError, UnicodeError):
        if b"\0" not in os.fsencode(path):
            text = os.fspath(path)
    if not isinstance(text, str) or not text or looks_like_a_key(text) or is_url(text):
        raise ConfigError(
            "path must be the path of a keystore file", code="invalid_keystore"
        )  # it may be a key, so it is not shown
    file = Path(os.path.expanduser(text))
    return file, printable(without_keys(str(file)))


def _password(password: Password | None, keystore: str) -> bytes:
    given: object = password() if callable(password) else password
    if password is None:
        given = _password_of_file(keystore)
    secret = None
    with contextlib.suppress(UnicodeEncodeError):  # the error would show the password
        secret = given.encode() if isinstance(given, str) else given
    if not isinstance(secret, bytes):
        kind = type(given).__name__
        raise ConfigError(
            "the password must be valid text" if kind == "str" else f"the password must be text or bytes, not {kind}",
            hint="pass the password as a str or bytes, or a function that returns it",
        )
    return secret


def _password_of_file(keystore: str) -> str:
    """The first line of the file that TRADE_KEYSTORE_PASSWORD_FILE names. It may be a pipe."""
    name = os.environ.get(PASSWORD_FILE)
    if not name:
        raise ConfigError(
            f"the keystore {keystore} needs its password",
            hint=f"set {PASSWORD_FILE} to a file, readable by you only, whose first line is the password",
        )
    path = os.path.expanduser(name)
    shown, named = printable(without_keys(path), 400), f"it is named by {PASSWORD_FILE}"
    try:
        with open(path, "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if os.name != "nt" and stat.S_ISREG(mode) and mode & 0o077:
                raise ConfigError(
                    f"{shown} can be read by others (mode {stat.S_IMODE(mode):04o})",
                    code="keystore_exposed",
                    hint=f"chmod 600 {shlex.quote(shown)}; they may have read it: then choose another password",
                )
            line = stream.readline(_MOST_PASSWORD)
    except failures(OSError) as error:
        raise ConfigError(f"cannot read {shown}: {error.strerror}", hint=of_file(error, named)) from None
    with contextlib.suppress(UnicodeDecodeError):  # the error would show the password
        return line.decode().rstrip("\r\n")
    raise ConfigError(f"{shown} is not text in UTF-8", hint=named)


# Reading


def _read(file: Path, shown: str) -> dict[str, Any]:
    """The document in a keystore file, after checking that it is one and that only its owner may read it.

    The file may hold a bare key, so its callers hide the locals of frames.
    """
    try:
        # Opening a pipe must not block. The open file is checked, so what is checked is what is read.
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as stream:
            about = os.fstat(stream.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ConfigError(f"the keystore {shown} is not a regular file", code="invalid_keystore")
            if os.name != "nt" and about.st_mode & 0o077:
                raise ConfigError(
                    f"other users may access the keystore {shown} (mode {stat.S_IMODE(about.st_mode):04o}); "
                    f"run: chmod 600 {shlex.quote(shown)}",
                    code="keystore_exposed",
                )
            content = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"no such keystore: {shown}", code="invalid_keystore") from None
    except failures(OSError) as error:
        message = f"the keystore {shown} cannot be read: {error.strerror}"
        raise ConfigError(message, code="invalid_keystore", hint=of_file(error)) from None
    found = None
    if len(content) <= _MOST_BYTES:
        with contextlib.suppress(ValueError):
            found = parse_json(content)
    if not isinstance(found, dict):
        raise _damaged(shown, " or not a keystore: it is not a JSON object")
    document = {str(name).lower(): value for name, value in found.items()}  # some wallets write "Crypto"
    version = document.get("version")
    if type(version) is not int or version != 3:
        known = f"version {version}" if type(version) is int and abs(version) < 1000 else "an unknown version"
        message = f"the keystore {shown} is of {known}; only version 3 is supported"
        raise ConfigError(message, code="invalid_keystore")
    if wrong := _wrong(document):
        raise _damaged(shown, f": {wrong}")
    return document


def _damaged(shown: str, how: str) -> ConfigError:
    return ConfigError(f"the keystore {shown} is damaged{how}", code="keystore_damaged")


def _wrong(document: Mapping[str, Any]) -> str:
    """What is wrong with a document: anything that would make the library fail, guess or run for hours."""
    crypto = document.get("crypto")
    if not isinstance(crypto, dict):
        return "it has no crypto"
    if crypto.get("cipher") != "aes-128-ctr":
        return "its cipher is not aes-128-ctr"
    cipher = crypto.get("cipherparams")
    parameters = crypto.get("kdfparams")
    if not isinstance(cipher, dict) or not isinstance(parameters, dict):
        return "cipherparams or kdfparams are missing"
    for name, value, lengths in (
        ("ciphertext", crypto.get("ciphertext"), (32,)),
        ("mac", crypto.get("mac"), (32,)),
        ("iv", cipher.get("iv"), range(1, 17)),  # a number: some wallets write no leading zeros
        ("salt", parameters.get("salt"), range(1, 1025)),
    ):
        match = _HEX.fullmatch(value) if isinstance(value, str) else None
        if match is None or len(match[1]) // 2 not in lengths:
            return f"its {name} cannot be read"
    numbers = {name: value for name, value in parameters.items() if type(value) is int and value > 0}
    if not 32 <= numbers.get("dklen", 0) <= 128:
        return "its dklen cannot be used"
    if crypto.get("kdf") == "scrypt":
        n, r, p = (numbers.get(name, 0) for name in "nrp")
        usable = n > 1 and not n & (n - 1) and r and p and 128 * n * r <= _MOST_MEMORY and n * r * p <= _MOST_WORK
        return "" if usable else "its n, r and p cannot be used"
    if crypto.get("kdf") == "pbkdf2":
        usable = parameters.get("prf") == "hmac-sha256" and 0 < numbers.get("c", 0) <= _MOST_ITERATIONS
        return "" if usable else "its c and prf cannot be used"
    return "its kdf is neither scrypt nor pbkdf2"


def _address(document: Mapping[str, Any], shown: str) -> str | None:
    named = document.get("address")
    if named is None:
        return None
    with contextlib.suppress(ConfigError):
        return checksummed(named)
    raise _damaged(shown, ": its address cannot be read")


def _decrypted(document: dict[str, Any], secret: bytes, shown: str) -> Opened:
    where = f"the keystore {shown} cannot be opened: "
    code: ErrorCode = "invalid_keystore"
    account: Any = eth_account()  # its types say that a password is text
    try:
        raw = bytes(account.decrypt(document, secret))
    except MemoryError:
        problem = "there is not enough memory"
    except failures(Exception):  # the form was checked, so it is the password that is wrong
        problem, code = "the password is wrong, or the file is damaged", "wrong_password"
    else:
        return opened(raw, where)
    raise ConfigError(where + problem, code=code)  # outside of the handler


# Writing


def _encrypted(account: Any, raw: bytes, secret: bytes, work: int, shown: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = account.encrypt(raw, secret, kdf="scrypt", iterations=work)
        return {**document, "address": document["address"].lower()}  # lower case, as other wallets write it
    except MemoryError:
        problem = "there is not enough memory"
    except failures(Exception) as error:
        problem = type(error).__name__
    raise ConfigError(f"the keystore {shown} cannot be created: {problem}", code="invalid_keystore")


def _exists(shown: str) -> ConfigError:
    return ConfigError(f"{shown} exists, and a keystore is never overwritten", code="keystore_exists")
