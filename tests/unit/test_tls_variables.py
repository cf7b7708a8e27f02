"""Certificates that the environment names: what cannot be used is refused at once, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest
import truststore

from tradesdk import AsyncTradeClient, ChainWitness, ConfigError, MarketClient, TradeClient
from tradesdk._http import tls

from .._answers import KEY
from .._rows import each_of

SERVICE = "https://service.example"
BROKEN = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
END = "-----END CERTIFICATE-----\n"
NONE = "it contains no certificate"
UNHASHED = "it contains no certificate under its hash"
UNUSABLE = {
    "a file that is gone": ("SSL_CERT_FILE", "gone/ca.pem", "No such file or directory"),
    "an empty file": ("SSL_CERT_FILE", "empty", NONE),
    "junk": ("SSL_CERT_FILE", "junk", NONE),
    "a broken certificate": ("SSL_CERT_FILE", "broken", NONE),
    "a folder as a file": ("SSL_CERT_FILE", "folder", "Is a directory"),
    "a folder that is gone": ("SSL_CERT_DIR", "gone", "No such file or directory"),
    "an empty folder": ("SSL_CERT_DIR", "folder", UNHASHED),
    "a file as a folder": ("SSL_CERT_DIR", "ca.pem", "Not a directory"),
    "certificates under other names": ("SSL_CERT_DIR", "names", UNHASHED),
    "junk under a hash": ("SSL_CERT_DIR", "hashed junk", UNHASHED),
    "two such folders": ("SSL_CERT_DIR", "folder:names", UNHASHED),
    "a log of keys that cannot be written": ("SSLKEYLOGFILE", "gone/keys", "No such file or directory"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    authorities = Path(certifi.where()).read_text().partition(END)[0] + END  # one is enough
    for name, content in {
        "empty": "", "junk": "hello\n", "broken": BROKEN, "ca.pem": authorities,
        "names/ca.pem": authorities, "hashed junk/0123abcd.0": "hello", "hashed/0123abcd.0": authorities,
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "folder").mkdir()
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"):
        monkeypatch.delenv(variable, raising=False)
    tls._context.cache_clear()
    yield tmp_path
    tls._context.cache_clear()


@each_of(
    ("proxy", "name", "path", "reason"),
    [*(("", *row) for row in UNUSABLE.values()), ("https://127.0.0.1:9", *UNUSABLE["an empty file"])],
)
def test_unusable(monkeypatch: pytest.MonkeyPatch, place: Path, proxy: str, name: str, path: str, reason: str) -> None:
    """Nothing is sent, and nothing is tried again: there is no client."""
    with monkeypatch.context() as patch:
        patch.setenv("HTTPS_PROXY", proxy)
        given = ":".join(str(place / part) for part in path.split(":"))
        patch.setenv(name, given)
        for client in (
            lambda: AsyncTradeClient(api_key=KEY, base_url=SERVICE),
            lambda: MarketClient(base_url=SERVICE),
            lambda: ChainWitness(SERVICE),
        ):
            with pytest.raises(
                ConfigError, match=f"^{re.escape(f'{name}={given} cannot be used: {reason}')}"
            ) as caught:
                client()
            assert f"unset {name}" in caught.value.hint


@each_of(
    "variables",
    [
        {},
        {"SSL_CERT_FILE": "ca.pem"},
        {"SSL_CERT_DIR": "hashed"},
        {"SSL_CERT_DIR": "gone:hashed junk:hashed"},
        {"SSL_CERT_FILE": "ca.pem", "SSL_CERT_DIR": "gone"},  # the file goes before the folder
        {"SSL_CERT_FILE": "ca.pem", "SSLKEYLOGFILE": "keys"},
    ],
)
def test_usable(monkeypatch: pytest.MonkeyPatch, place: Path, variables: dict[str, str]) -> None:
    with monkeypatch.context() as patch:
        for name, path in variables.items():
            patch.setenv(name, ":".join(str(place / part) for part in path.split(":")))
        with TradeClient(api_key=KEY, base_url=SERVICE):
            tls.tls_context()


@each_of("variables", [{}, {"SSL_CERT_FILE": "ca.pem"}, {"SSL_CERT_DIR": "hashed"}])
def test_with_the_certificates_of_the_system(
    monkeypatch: pytest.MonkeyPatch, place: Path, variables: dict[str, str]
) -> None:
    """`truststore.inject_into_ssl()`: its contexts do not tell which certificates they have."""
    with monkeypatch.context() as patch:
        for name, path in variables.items():
            patch.setenv(name, str(place / path))
        truststore.inject_into_ssl()
        try:
            with TradeClient(api_key=KEY, base_url=SERVICE):
                assert isinstance(tls.tls_context(), truststore.SSLContext)
        finally:
            truststore.extract_from_ssl()


def test_what_needs_no_certificates(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(place / "gone"))
    with TradeClient(api_key=KEY, base_url="http://127.0.0.1:9"):
        pass
    monkeypatch.setenv("SSL_CERT_FILE", "")
    with TradeClient(api_key=KEY, base_url=SERVICE):
        pass
