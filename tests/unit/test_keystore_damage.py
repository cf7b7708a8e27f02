"""Key files with which something is wrong: refused by name, and before the password is asked for where that can be."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from Crypto.Cipher import AES
from Crypto.Hash import keccak

from tradesdk import ConfigError, LocalSigner, create_keystore, keystore_address

from .._rows import each_of
from .._secrets import WALLET_KEY, Seen
from ._keystores import ADDRESS, PASSWORD, PBKDF2, VECTOR_KEY, changed, written

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


OPEN = LocalSigner.from_keystore


def refusal(seen: Seen, path: Any, password: Any = PASSWORD, use: Callable[..., Any] = OPEN) -> str:
    """How it is refused; errors and frames hold neither the key nor a password that was asked for."""
    with pytest.raises(ConfigError) as caught:
        use(path, (lambda: password) if isinstance(password, str) else password)
    seen.error(caught.value)
    return str(caught.value)


@each_of("password", ["", PASSWORD + " ", PASSWORD.upper(), "x" * 10_000])
def test_the_wrong_password(path: Path, seen: Seen, password: str) -> None:
    told = refusal(seen, path, password)
    assert told == f"the keystore {path} cannot be opened: the password is wrong, or the file is damaged"


@each_of("password", [5, ["a"], bytearray(b"a"), "\ud800", lambda: None])
def test_what_is_no_password(path: Path, seen: Seen, password: Any) -> None:
    assert "the password must be " in refusal(seen, path, password)


def test_what_the_function_raises_goes_through(path: Path) -> None:
    def password() -> str:
        raise EOFError("no terminal")

    with pytest.raises(EOFError, match="no terminal"):
        LocalSigner.from_keystore(path, password)


@POSIX
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o777])
def test_a_file_that_is_open_to_others(path: Path, seen: Seen, mode: int) -> None:
    path = path.rename(path.with_name("my wallet's.json"))
    path.chmod(mode)
    for use in (OPEN, lambda path, _: keystore_address(path)):
        told = refusal(seen, path, lambda: pytest.fail("asked for nothing"), use)
        assert f"(mode 0{mode:o})" in told
        fix = told.partition("run: ")[2]
    subprocess.run(shlex.split(fix), check=True)
    assert LocalSigner.from_keystore(path, PASSWORD).address == ADDRESS


@POSIX
@each_of("mode", [0o600, 0o400, 0o700])
def test_a_file_for_its_owner_alone(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert LocalSigner.from_keystore(path, PASSWORD).address == ADDRESS


def test_a_link_is_judged_by_where_it_leads(path: Path, seen: Seen) -> None:
    link = path.with_name("link.json")
    link.symlink_to(path)
    assert LocalSigner.from_keystore(link, PASSWORD).address == ADDRESS
    path.chmod(0o644)
    assert "other users may access" in refusal(seen, link)


@POSIX
def test_a_file_that_cannot_be_read(path: Path, seen: Seen) -> None:
    path.chmod(0)
    root = os.geteuid() == 0
    if root:  # nothing is closed to root
        os.seteuid(65534)
    try:
        told = refusal(seen, path)
    finally:
        if root:
            os.seteuid(0)
    assert told == f"the keystore {path} cannot be read: Permission denied"


@POSIX
def test_what_is_no_file(path: Path, tmp_path: Path, seen: Seen) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert "is not a regular file" in refusal(seen, pipe)  # without waiting for somebody to write
    assert "cannot be read: Is a directory" in refusal(seen, tmp_path)
    assert "cannot be read: Not a directory" in refusal(seen, path / "wallet.json")
    assert "is not a regular file" in refusal(seen, os.devnull)
    assert refusal(seen, tmp_path / "none.json") == f"no such keystore: {tmp_path}/none.json"


@each_of("named", [WALLET_KEY, WALLET_KEY[2:], bytes.fromhex(WALLET_KEY[2:]), "", "a\0b", None, 5])
def test_a_key_in_place_of_a_path_is_not_shown(seen: Seen, named: Any) -> None:
    for use in (OPEN, lambda path, _: keystore_address(path), create_keystore):
        with pytest.raises(ConfigError, match="must be the path of a keystore file") as caught:
            use(named, lambda: PASSWORD)
        seen.error(caught.value)


RAW = WALLET_KEY.encode()
NO_DOCUMENTS = [
    *(b"", b" ", RAW, b'"' + RAW + b'"', b"[]", b"null", b"3", b"{", b'{"version": 3', b"\xff\xfe", b"\x00" * 100),
    *(
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b'{"version": 3, "x": "' + RAW * 1000 + b'"}',
        b'{"version": 3}' + b" " * 70_000,
    ),
]


@each_of("content", NO_DOCUMENTS, ids=range(len(NO_DOCUMENTS)))
def test_what_is_no_document(tmp_path: Path, seen: Seen, content: bytes) -> None:
    file = written(tmp_path / "wallet.json", content)
    assert refusal(seen, file) == f"the keystore {file} is damaged or not a keystore: it is not a JSON object"


DEEP = """
import sys, threading
from tradesdk import ConfigError, LocalSigner

def open_it():
    try:
        LocalSigner.from_keystore(sys.argv[1], "password")
    except ConfigError as error:
        print("no JSON object" if "not a JSON object" in str(error) else error)

sys.setrecursionlimit(100_000)  # as importing eth_account does
threading.stack_size(1 << 20)
thread = threading.Thread(target=open_it)
thread.start()
thread.join()
"""


@pytest.mark.long
def test_a_deep_document_is_refused_where_another_library_has_raised_the_recursion_limit(tmp_path: Path) -> None:
    file = written(tmp_path / "wallet.json", b"[" * 60_000)
    done = subprocess.run([sys.executable, "-c", DEEP, file], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "no JSON object\n", "")


@each_of("version", [None, 1, 2, 4, -3, "3", 3.5, True, 10**30, [3], {"a": WALLET_KEY}])
def test_another_version(path: Path, seen: Seen, version: Any) -> None:
    document = changed(json.loads(path.read_text()), "version", to=version)
    told = refusal(seen, written(path.with_name("other.json"), document), lambda: pytest.fail("asked for nothing"))
    assert "only version 3 is supported" in told
    assert (f"of version {version};" in told) == (type(version) is int and version < 1000)


DAMAGE: list[tuple[tuple[str, ...], list[Any], str]] = [
    (("crypto",), [None, "x", []], "it has no crypto"),
    (("crypto", "cipher"), [None, "aes-256-cbc", 5], "cipher is not aes-128-ctr"),
    (("crypto", "cipherparams"), [None, 5], "cipherparams or kdfparams are missing"),
    (("crypto", "kdfparams"), [None, []], "cipherparams or kdfparams are missing"),
    (
        ("crypto", "ciphertext"),
        [None, "", "00" * 31, "00" * 33, "0" * 63, "gg" * 32, 5, "\uff10\uff10" * 32],
        "its ciphertext",
    ),
    (("crypto", "mac"), [None, "00" * 31, []], "its mac"),
    (("crypto", "cipherparams", "iv"), [None, "", "0" * 31, "00" * 17], "its iv"),
    (("crypto", "kdfparams", "salt"), [None, "", "0", "00" * 2000], "its salt"),
    (("crypto", "kdfparams", "dklen"), [None, 0, 16, 31, 1 << 40, "32", True], "its dklen"),
    (("crypto", "kdf"), [None, "argon2", 5], "its kdf is neither"),
    (("crypto", "kdfparams", "n"), [None, 0, 1, 3, -2, 2.0, "2", 1 << 30, 1 << 60], "its n, r and p"),
    (("crypto", "kdfparams", "r"), [None, 0, -8, 1 << 30], "its n, r and p"),
    (("crypto", "kdfparams", "p"), [None, 0, 1 << 26], "its n, r and p"),
    (("address",), ["", "0x12", 5, "g" * 40, []], "its address cannot be read"),
]


@each_of(("place", "to", "why"), [(place, value, why) for place, values, why in DAMAGE for value in values])
def test_a_damaged_document(path: Path, seen: Seen, place: tuple[str, ...], to: Any, why: str) -> None:
    file = written(path.with_name("damaged.json"), changed(json.loads(path.read_text()), *place, to=to))
    told = refusal(seen, file, lambda: pytest.fail("asked for nothing"))
    assert told.startswith(f"the keystore {file} is damaged: ")
    assert why in told


@each_of(("name", "to"), [("c", 0), ("c", 10**12), ("c", None), ("prf", "hmac-md5"), ("prf", None)])
def test_a_damaged_document_of_the_other_kind(tmp_path: Path, seen: Seen, name: str, to: Any) -> None:
    file = written(tmp_path / "wallet.json", changed(PBKDF2, "crypto", "kdfparams", name, to=to))
    assert "its c and prf cannot be used" in refusal(seen, file)


def test_the_address_of_another_key(path: Path, seen: Seen) -> None:
    other = LocalSigner.from_key(VECTOR_KEY).address
    written(path, changed(json.loads(path.read_text()), "address", to=other))
    assert keystore_address(path) == other
    assert f"its address is {other}, and its key belongs to {ADDRESS}" in refusal(seen, path)


def test_every_flipped_bit_is_found(path: Path, seen: Seen) -> None:
    document = json.loads(path.read_text())
    for place in (("ciphertext",), ("mac",), ("kdfparams", "salt"), ("cipherparams", "iv")):
        value = document["crypto"]
        for name in place:
            value = value[name]
        flipped = f"{int(value[0], 16) ^ 1:x}{value[1:]}"
        told = refusal(seen, written(path, changed(document, "crypto", *place, to=flipped)))
        assert "damaged" in told, place


def test_a_key_that_is_out_of_range(path: Path, seen: Seen) -> None:
    """Zero, encrypted correctly: only what comes out of it is wrong."""
    document = json.loads(path.read_text())
    crypto = document["crypto"]
    salt, iv = bytes.fromhex(crypto["kdfparams"]["salt"]), int(crypto["cipherparams"]["iv"], 16)
    derived = hashlib.scrypt(PASSWORD.encode(), salt=salt, n=2, r=8, p=1, dklen=32)
    content = AES.new(derived[:16], AES.MODE_CTR, nonce=b"", initial_value=iv).encrypt(bytes(32))
    crypto["ciphertext"] = content.hex()
    crypto["mac"] = keccak.new(data=derived[16:] + content, digest_bits=256).hexdigest()
    assert "the private key is not a valid secp256k1 key" in refusal(seen, written(path, document))


NEARLY = [
    WALLET_KEY[2:],
    WALLET_KEY,
    *(WALLET_KEY[:-1], WALLET_KEY + "0", WALLET_KEY[2:-4], WALLET_KEY[:-1] + "g", "x" + WALLET_KEY, WALLET_KEY * 2),
    *(f'"{WALLET_KEY}"', f" {WALLET_KEY}\n", f"./{WALLET_KEY}", f"{WALLET_KEY}.json", f"TRADE_WALLET_KEY={WALLET_KEY}"),
]


@each_of("typed", NEARLY)
@each_of("use", [OPEN, lambda path, _: keystore_address(path)])
def test_a_key_where_a_path_belongs_is_not_shown(typed: str, use: Callable[..., Any]) -> None:
    """A mistyped one neither."""
    with pytest.raises(ConfigError) as caught:
        use(typed, PASSWORD)
    for shown in (str(caught.value), repr(caught.value), "".join(traceback.format_exception(caught.value))):
        assert not any(part in shown for part in (WALLET_KEY[2:34], WALLET_KEY[-32:-4])), shown


def test_a_file_is_never_named_like_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for typed in (*NEARLY[:8], "keystore\ud83d", "keystore\0"):
        with pytest.raises(ConfigError, match="path must be the path of a keystore file"):
            create_keystore(typed, PASSWORD, work=2)
    assert list(tmp_path.iterdir()) == []
