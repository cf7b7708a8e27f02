"""Sockets that another thread reads from."""

from __future__ import annotations

import socket

from .interrupts import suppress


def cut_off(reading: object) -> None:
    """End a read in another thread; `reading` is a network stream of an HTTP library, or anything with `close`.

    Closing the socket would not wake up that thread.
    """
    extra = getattr(reading, "get_extra_info", None)
    if extra is None:
        close = getattr(reading, "close", None)
        if close is not None:
            close()
        return
    sock = extra("socket")
    if sock is not None:
        with suppress(OSError):
            socket.socket.shutdown(
                sock, socket.SHUT_RDWR
            )  # the TLS socket's own shutdown would discard the session during the read
