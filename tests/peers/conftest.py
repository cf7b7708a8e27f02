"""The official packages, made ready on first use, and sellers that use them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

from ._programs import Chain, Program
from .environments import HERE, EnvironmentFailed, make, python_in

GOLDEN = HERE.parent / "contract" / "golden" / "market"


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Makes the environments `v2` and `node`, or finds them in the directory that PEERS_HOME names.

    Without that variable they are made beside this run's temporary files, once for all workers, and the last worker
    that has used them removes them.
    """
    kept = os.environ.get("PEERS_HOME")
    if kept:
        yield making(Path(kept).absolute())
        return
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    home = shared / "peers"
    users = os.open(shared / "peers.users", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(users, fcntl.LOCK_SH)
        yield making(home)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        shutil.rmtree(home, ignore_errors=True)
    finally:
        os.close(users)


def making(home: Path) -> Callable[[str], Path]:
    """Makes environments there. What failed once fails at once from then on: a hundred tests need them."""
    failed: dict[str, EnvironmentFailed] = {}

    def find(name: str) -> Path:
        if name in failed:
            raise failed[name]
        try:
            return make(name, home)
        except EnvironmentFailed as error:
            failed[name] = error
            raise

    return find


@dataclass(frozen=True)
class Seller:
    """The market-data API as somebody sells it with an official package.

    Attributes:
        name: which package.
        url: where it listens.
        chain: where its facilitator takes the money.
    """

    name: str
    url: str
    chain: Chain


Sellers = Callable[[str], Seller]


@pytest.fixture(scope="session")
def sellers(environment: Callable[[str], Path]) -> Iterator[Sellers]:
    """Starts sellers when one of them is asked for first: `v2` or `node`, perhaps with words of `server_v2.KINDS`."""
    with ExitStack() as stack:

        def urls(*command: str | Path, folder: Path = HERE) -> dict[str, str]:
            found: dict[str, str] = stack.enter_context(Program(*command, folder=folder)).hear()
            return found

        @cache
        def start(package: str) -> tuple[dict[str, str], Chain]:
            if package == "node":
                found = urls("node", "server.mjs", GOLDEN, folder=environment(package))
                return found, Chain(found[""])
            python = python_in(environment(package))
            facilitator = urls(python, "-m", "programs.facilitator")[""]
            return urls(python, "-m", f"programs.server_{package}", facilitator), Chain(facilitator)

        def seller(name: str) -> Seller:
            package, _, words = name.partition(" ")
            found, chain = start(package)
            return Seller(name, found[words], chain)

        yield seller


@pytest.fixture(scope="session")
def buyers(environment: Callable[[str], Path]) -> Iterator[Callable[[str], Program]]:
    """Starts an official client when it is asked for first: `v2` or `node`."""
    with ExitStack() as stack:

        @cache
        def start(name: str) -> Program:
            if name == "node":
                return stack.enter_context(Program("node", "client.mjs", folder=environment(name)))
            python = python_in(environment(name))
            return stack.enter_context(Program(python, "-m", f"programs.client_{name}"))

        yield start


@dataclass(frozen=True)
class Payer:
    """An account that nobody has used before.

    Attributes:
        key: the private key, in hex.
        address: whose key it is.
    """

    key: str
    address: str


@pytest.fixture
def payer() -> Payer:
    from eth_account import Account  # takes half a second, which a run without these tests needn't spend

    made = Account.create()
    return Payer("0x" + bytes(made.key).hex(), made.address)


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Literal["blocking", "async"]:
    found: Literal["blocking", "async"] = request.param
    return found
