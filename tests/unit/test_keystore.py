"""Encrypted key files: those of others are read, ours are read by others, and none is ever overwritten."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from tradesdk import ConfigError, InvalidArgumentError, LocalSigner, create_keystore, keystore_address

from .._secrets import WALLET_KEY, Seen
from ._keystores import ADDRESS, PASSWORD, PBKDF2, SCRYPT, VECTOR_KEY, written

POSIX = pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")


@pytest.fixture
def seen() -> Iterator[Seen]:
    """What it takes in shows neither the marked key nor the password."""
    seen = Seen(PASSWORD)
    yield seen
    assert seen.found() == []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "wallet.json"
    create_keystore(file, PASSWORD, WALLET_KEY, work=2)
    return file


# Made by others


@pytest.mark.long  # their rounds take as long as they are meant to
@pytest.mark.parametrize("document", [PBKDF2, SCRYPT], ids=["pbkdf2", "scrypt"])
def test_the_published_vectors(tmp_path: Path, document: dict[str, Any]) -> None:
    file = written(tmp_path / "vector.json", document)
    assert LocalSigner.from_keystore(file, "testpassword").address == LocalSigner.from_key(VECTOR_KEY).address
    with pytest.raises(ConfigError, match="does not contain its address"):
        keystore_address(file)


@pytest.mark.parametrize("kdf", ["scrypt", "pbkdf2"])
@pytest.mark.parametrize("password", [PASSWORD, PASSWORD.encode(), lambda: PASSWORD, "пароль ♥", b"\xff\x00", ""])
def test_what_eth_account_wrote(tmp_path: Path, kdf: Any, password: Any) -> None:
    secret: Any = PASSWORD if callable(password) else password
    key = bytes.fromhex(WALLET_KEY[2:])
    file = written(tmp_path / "wallet.json", Account.encrypt(key, secret, kdf=kdf, iterations=2))
    given: Any = password
    signer = LocalSigner.from_keystore(str(file), given)
    assert signer.address == keystore_address(file) == ADDRESS
    assert signer.sign_digest(bytes(32)) == LocalSigner.from_key(WALLET_KEY).sign_digest(bytes(32))


def test_other_writings(path: Path) -> None:
    """Capitals in names, 0x in front, no address, a byte order mark's worth of other fields."""
    document = json.loads(path.read_text())
    crypto = document["crypto"]
    loud = {"Crypto": {**crypto, "mac": "0x" + crypto["mac"].upper()}, "VERSION": 3, "x-note": {"a": [1]}}
    for content in (loud, {**loud, "address": ADDRESS}, {**loud, "address": ADDRESS[2:].upper()}):
        assert LocalSigner.from_keystore(written(path, content), PASSWORD).address == ADDRESS


@pytest.mark.parametrize("zeros", [1, 5, 15])
def test_an_iv_without_its_leading_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zeros: int) -> None:
    """As older releases of eth-keyfile write it."""
    monkeypatch.setattr("eth_keyfile.keyfile.Random.get_random_bytes", lambda size: bytes(zeros).ljust(size, b"x"))
    document = Account.encrypt(bytes.fromhex(WALLET_KEY[2:]), PASSWORD, iterations=2)
    cipher = document["crypto"]["cipherparams"]
    cipher["iv"] = cipher["iv"].removeprefix("00" * zeros)
    assert LocalSigner.from_keystore(written(tmp_path / "wallet.json", document), PASSWORD).address == ADDRESS


# Ours


def test_a_new_key(tmp_path: Path) -> None:
    first, second = tmp_path / "one.json", tmp_path / "two.json"
    addresses = [create_keystore(file, lambda: PASSWORD, work=2) for file in (first, second)]
    assert len(set(addresses)) == 2
    for file, address in zip((first, second), addresses, strict=True):
        assert keystore_address(file) == address
        assert LocalSigner.from_keystore(file, PASSWORD).address == address
        assert sorted(os.listdir(tmp_path)) == ["one.json", "two.json"]


@pytest.mark.parametrize("key", [WALLET_KEY, WALLET_KEY[2:], bytes.fromhex(WALLET_KEY[2:])])
def test_eth_account_reads_ours(tmp_path: Path, key: str | bytes) -> None:
    file = tmp_path / "wallet.json"
    assert create_keystore(file, PASSWORD, key, work=4) == ADDRESS
    document = json.loads(file.read_text())
    assert document["version"] == 3
    assert document["address"] == ADDRESS[2:].lower()
    assert document["crypto"]["kdfparams"]["n"] == 4
    assert bytes(Account.decrypt(document, PASSWORD)).hex() == WALLET_KEY[2:]


@pytest.mark.long
def test_the_work_that_is_usual(tmp_path: Path) -> None:
    file = tmp_path / "wallet.json"
    create_keystore(file, PASSWORD, WALLET_KEY)
    assert json.loads(file.read_text())["crypto"]["kdfparams"]["n"] == 262144
    assert keystore_address(file) == ADDRESS


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_nobody_else_can_read_it(tmp_path: Path, umask: int) -> None:
    file = tmp_path / "made" / "wallet.json"
    (tmp_path / "made").mkdir()
    before = os.umask(umask)
    try:
        create_keystore(file, PASSWORD, WALLET_KEY, work=2)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@POSIX
def test_folders_are_made_for_the_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert create_keystore("~/trade/keys/wallet.json", PASSWORD, WALLET_KEY, work=2) == ADDRESS
    for folder in ("trade", "trade/keys"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    assert LocalSigner.from_keystore("~/trade/keys/wallet.json", PASSWORD).address == ADDRESS


@POSIX
def test_a_file_system_that_lets_others_in_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the key is written."""
    chmod = os.fchmod
    monkeypatch.setattr(os, "fchmod", lambda file, mode: chmod(file, mode | 0o044))
    with pytest.raises(ConfigError, match="does not keep others out"):
        create_keystore(tmp_path / "wallet.json", PASSWORD, WALLET_KEY, work=2)
    assert os.listdir(tmp_path) == []


def test_nothing_is_ever_overwritten(tmp_path: Path, path: Path) -> None:
    before = path.read_bytes()
    nowhere = tmp_path / "link.json"
    nowhere.symlink_to(tmp_path / "not there")

    def password() -> str:
        pytest.fail("nobody should type a password for nothing")

    for there in (path, nowhere, tmp_path):
        with pytest.raises(ConfigError, match="exists, and a keystore is never overwritten"):
            create_keystore(there, password, WALLET_KEY, work=2)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["link.json", "wallet.json"]


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    file = tmp_path / "wallet.json"

    def password() -> str:
        file.write_text("somebody else's")
        return PASSWORD

    with pytest.raises(ConfigError, match="exists, and"):
        create_keystore(file, password, WALLET_KEY, work=2)
    assert file.read_text() == "somebody else's"
    assert os.listdir(tmp_path) == ["wallet.json"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    file = tmp_path / "wallet.json"
    assert create_keystore(file, PASSWORD, WALLET_KEY, work=2) == ADDRESS
    assert LocalSigner.from_keystore(file, PASSWORD).address == ADDRESS
    assert os.listdir(tmp_path) == ["wallet.json"]

    def replace(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(ConfigError):
        create_keystore(tmp_path / "other.json", PASSWORD, WALLET_KEY, work=2)
    assert os.listdir(tmp_path) == ["wallet.json"], "the name is free"


KILLED = """
import json, os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from tests._killing import Deadly, child
from tradesdk.payments.signing import keystore

folder, password, links = Path(sys.argv[1]), "a password", sys.argv[2] == "links"
keystore.create_keystore(folder / "first", password, work=2)  # imports what children would import each

CALLS = ("open", "fchmod", "write", "fsync", "close", "link", "replace", "unlink")

def refused(*given, **named):
    raise PermissionError(1, "Operation not permitted")

def made(tell):
    if not links:
        os.link = refused
    deadly = Deadly(SimpleNamespace(**{name: getattr(os, name) for name in CALLS}), CALLS, len(found) + 1)
    for name in CALLS:
        setattr(os, name, getattr(deadly, name))
    keystore.create_keystore(file, password, work=2)

def left(file):
    if not file.exists():
        return "missing"
    try:  # sizes differ: a number is written without its leading zeros by some versions
        return "whole" if keystore.keystore_address(file) else "no address"
    except Exception:
        return f"{file.stat().st_size} bytes"

found, status = [], signal.SIGKILL
while status == signal.SIGKILL:
    file = folder / str(len(found))
    _, status = child(made)
    found.append(left(file))
parts = sum(name.endswith(".tmp") for name in os.listdir(folder))
for number in range(len(found)):  # the next run for that file
    try:
        keystore.create_keystore(folder / str(number), password, work=2)
    except Exception as error:
        assert "exists" in str(error), error
print(json.dumps([status, found, parts, [name for name in os.listdir(folder) if name.endswith(".tmp")]]))
"""


@POSIX
@pytest.mark.long
@pytest.mark.parametrize("links", ["links", "no links"])
def test_a_kill_leaves_a_whole_keystore_or_none(tmp_path: Path, links: str) -> None:
    """Before each call to the system. Where there are no links, an empty file may have the name."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), links]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=300)
    status, found, parts, after = json.loads(done.stdout)
    assert (parts > 3, after) == (True, []), "the next run removes what was left"
    assert (status, found[-1]) == (0, "whole")
    assert len(found) > 8
    assert set(found) == {"missing", "whole"} | ({"0 bytes"} if links == "no links" else set())


@POSIX
def test_what_a_live_process_is_writing_stays(tmp_path: Path) -> None:
    """A part that is locked is somebody's, another one is what was left; other files have nothing to do with it."""
    fcntl = pytest.importorskip("fcntl")
    names = [f".wallet.json.{part}" for part in ("0" * 16 + ".tmp", "1" * 16 + ".tmp", "2.tmp", "backup.tmp")]
    for name in names:
        (tmp_path / name).touch()
    with open(tmp_path / names[0]) as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        create_keystore(tmp_path / "wallet.json", PASSWORD, WALLET_KEY, work=2)
    assert sorted(os.listdir(tmp_path)) == sorted(["wallet.json", names[0], *names[2:]])


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    def fsync(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device") as caught:
        create_keystore(tmp_path / "wallet.json", lambda: PASSWORD, work=2)
    seen.error(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("work", [0, 1, 3, -2, 2.0, True, "4", 1 << 21, None])
def test_work_that_makes_no_sense(tmp_path: Path, work: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="power of two"):
        create_keystore(tmp_path / "wallet.json", PASSWORD, work=work)


@pytest.mark.parametrize("password", ["", b"", lambda: ""])
def test_an_empty_password_makes_no_keystore(tmp_path: Path, password: Any) -> None:
    with pytest.raises(ConfigError, match="must not be empty"):
        create_keystore(tmp_path / "wallet.json", password, work=2)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("key", [WALLET_KEY[:-1], WALLET_KEY + "0", b"", "0x" + "f" * 64, bytes(32), 5])
def test_what_is_no_key_makes_no_keystore(tmp_path: Path, seen: Seen, key: Any) -> None:
    with pytest.raises(ConfigError, match=r"^the private key") as caught:
        create_keystore(tmp_path / "wallet.json", lambda: pytest.fail("asked for nothing"), key, work=2)
    seen.error(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_opening_leaves_the_limit_of_recursion_alone(path: Path) -> None:
    code = (
        "import sys; from tradesdk import LocalSigner, create_keystore; before = sys.getrecursionlimit();"
        f"LocalSigner.from_keystore({str(path)!r}, {PASSWORD!r}); create_keystore({str(path) + '2'!r}, 'x', work=2);"
        "assert sys.getrecursionlimit() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
