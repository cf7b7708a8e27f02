"""What stands between a client and a service: something that ends TLS, or a proxy that collects before it passes on."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from Crypto.Hash import SHA256
from Crypto.PublicKey import ECC
from Crypto.Signature import DSS

NAME = "127.0.0.1"


@dataclass
class Relay:
    """It listens at `port`. While it is `frozen` nothing passes, and no end of a connection is seen."""

    port: int
    service: int
    tls: ssl.SSLContext | None
    collect: float
    frozen: bool = False
    cuts: int = 0
    over: bool = False

    def cut(self) -> None:
        """The connections that there are break off."""
        self.cuts += 1

    def serve(self, connection: socket.socket) -> None:
        cuts = self.cuts
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            if self.tls is not None:
                connection = stack.enter_context(self.tls.wrap_socket(connection, server_side=True))
            self._pass_on(connection, stack.enter_context(socket.create_connection(("127.0.0.1", self.service))), cuts)

    def _pass_on(self, client: socket.socket, service: socket.socket, cuts: int) -> None:
        """Until one of them ends. One thread for both ways: a TLS connection must not be used by two."""
        held, due = b"", 0.0
        while not self.over and cuts == self.cuts:
            if self.frozen:
                time.sleep(0.01)
                continue
            waiting = isinstance(client, ssl.SSLSocket) and client.pending()
            ready, _, _ = select.select([client, service], [], [], 0 if waiting else 0.02)
            if waiting or client in ready:
                if not (data := client.recv(65_536)):
                    return
                service.sendall(data)
            if service in ready:
                if not (data := service.recv(65_536)):
                    client.sendall(held)
                    return
                if not held:
                    due = time.monotonic() + self.collect
                held += data
            if held and time.monotonic() >= due:
                client.sendall(held)
                held = b""


@contextlib.contextmanager
def relay(service: int, *, tls: ssl.SSLContext | None = None, collect: float = 0.0) -> Iterator[Relay]:
    """What the service at port `service` sends is passed on after `collect` seconds, all of it together."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    passing = Relay(int(listener.getsockname()[1]), service, tls, collect)
    threads: list[threading.Thread] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                thread = threading.Thread(target=passing.serve, args=(listener.accept()[0],))
                threads.append(thread)
                thread.start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield passing
    finally:
        passing.over = True
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for thread in threads:
            thread.join()


@cache
def _certificate() -> tuple[str, str]:
    """A certificate for 127.0.0.1 that nobody has signed but its own key, and that key; both PEM."""
    key = ECC.generate(curve="P-256")
    algorithm = _sequence(_object(1, 2, 840, 10045, 4, 3, 2))
    name = _sequence(_der(0x31, _sequence(_object(2, 5, 4, 3), _der(0x0C, NAME.encode()))))
    now = datetime.now(UTC)
    validity = _sequence(*(_der(0x17, f"{now + timedelta(days=days):%y%m%d%H%M%SZ}".encode()) for days in (-1, 1)))
    names = _sequence(_der(0x87, socket.inet_aton(NAME)))
    extensions = _der(0xA3, _sequence(_sequence(_object(2, 5, 29, 17), _der(0x04, names))))
    public: Any = key.public_key().export_key(format="DER")
    version, serial = _der(0xA0, _der(0x02, b"\2")), _der(0x02, b"\1")
    content = _sequence(version, serial, algorithm, name, validity, name, public, extensions)
    signature = DSS.new(key, "fips-186-3", encoding="der").sign(SHA256.new(content))
    whole = ssl.DER_cert_to_PEM_cert(_sequence(content, algorithm, _der(0x03, b"\0" + signature)))
    return whole, str(key.export_key(format="PEM"))


def tls_contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(a server's, that of a client which trusts it alone)."""
    whole, key = _certificate()
    file = folder / "server.pem"
    file.write_text(f"{whole}{key}\n")
    file.chmod(0o600)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(file)
    client.load_verify_locations(cadata=whole)
    return server, client


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 128 + len(digits)]) + digits + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, b"".join(parts))


def _object(first: int, second: int, *arcs: int) -> bytes:
    content = bytes([40 * first + second])
    for arc in arcs:
        digits = [arc & 127]
        while arc := arc >> 7:
            digits.append(128 + (arc & 127))
        content += bytes(reversed(digits))
    return _der(0x06, content)
