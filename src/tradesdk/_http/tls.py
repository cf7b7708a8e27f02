"""TLS of the SDK's own connections, with the certificates of SSL_CERT_FILE or SSL_CERT_DIR, else of certifi."""

from __future__ import annotations

import functools
import os
import re
import ssl

from .._system.interrupts import failures
from ..errors import ConfigError

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")


def check_tls_variables() -> None:
    """Refuse unusable variables before anything is sent. Without them no file is read: that takes 20 ms."""
    if any(map(os.environ.get, _VARIABLES)):
        tls_context()


def tls_context() -> ssl.SSLContext:
    """The TLS context, shared by all clients with the same variables."""
    return _context(*(os.environ.get(name) or None for name in _VARIABLES))


@functools.cache
def _context(file: str | None, folder: str | None, key_log: str | None) -> ssl.SSLContext:
    try:
        if file is None and folder is not None:
            _check_folder(folder)
            return ssl.create_default_context(capath=folder)
        bundle = file
        if bundle is None:
            import certifi

            bundle = certifi.where()
        return ssl.create_default_context(cafile=bundle)
    except failures(OSError) as error:
        if key_log is not None and error.filename == key_log:
            raise _refused("SSLKEYLOGFILE", key_log, error.strerror) from None
        if file is None:
            raise
        reason = "it contains no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise _refused("SSL_CERT_FILE", file, reason) from None


def _check_folder(folders: str) -> None:
    """Refuse an unusable folder. OpenSSL accepts any folder, and then trusts no certificate."""
    reason = "it contains no certificate under its hash; see `openssl rehash`"
    for folder in folders.split(os.pathsep):
        try:
            names = sorted(filter(_HASHED.fullmatch, os.listdir(folder)))
        except failures(OSError) as error:
            reason = error.strerror or reason
            continue
        for name in names:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(os.path.join(folder, name))
                return
            except failures(OSError):
                continue
    raise _refused("SSL_CERT_DIR", folders, reason)


def _refused(name: str, path: str, reason: str | None) -> ConfigError:
    hint = "" if name == "SSLKEYLOGFILE" else "; then certifi's certificates are used"
    return ConfigError(f"{name}={path} cannot be used: {reason}", hint=f"correct it, or unset {name}{hint}")
