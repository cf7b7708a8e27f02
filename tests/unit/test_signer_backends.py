"""Two libraries, one signature: whichever is installed, the same bytes, and no more of them loaded than needed."""

import importlib.util
import subprocess
import sys

import pytest
from eth_keys.backends.native.main import NativeECCBackend
from eth_keys.main import KeyAPI
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tradesdk.payments.signing import secp256k1
from tradesdk.payments.signing.secp256k1 import ORDER, Opened, checksummed, recovered

HAS_COINCURVE = importlib.util.find_spec("coincurve") is not None
needs_coincurve = pytest.mark.skipif(
    not HAS_COINCURVE,
    reason="coincurve is not installed, so the fast way of signing is NOT tested: install the extra fast",
)
PURE = KeyAPI(NativeECCBackend)
"""Written in Python; never coincurve in disguise, as eth-account is where that is installed."""

# The known vector: the key of 32 ones, an authorization of $0.03.
DIGEST = bytes.fromhex("68d49d6f7fc2ec80392af8634f10a04401ae72761e1462f373768b38058fed8d")
ADDRESS = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
SIGNATURE = (
    "df041869fe73b44afa112ae557934674384f222789251693565b0565b35f4bc4"
    "12ad04a75cc27a00a41598f7574bd8e1481d6031a5ac18064dd68b5c54052a701b"
)

keys = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32, "big"))
digests = st.binary(min_size=32, max_size=32)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def pure(key: bytes, digest: bytes) -> tuple[str, bytes]:
    private = PURE.PrivateKey(key)
    raw = private.sign_msg_hash(digest).to_bytes()
    return private.public_key.to_checksum_address(), raw[:64] + bytes([raw[64] + 27])


def opened_by_coincurve(key: bytes) -> Opened:
    made = secp256k1._by_coincurve(key)
    assert made is not None
    return made


@needs_coincurve
@given(keys, digests)
@example((1).to_bytes(32, "big"), bytes(32))
@example((ORDER - 1).to_bytes(32, "big"), b"\xff" * 32)
@example(b"\x01" * 32, ORDER.to_bytes(32, "big"))
def test_coincurve_signs_as_python_does(key: bytes, digest: bytes) -> None:
    made = opened_by_coincurve(key)
    assert (made.address, made.sign(digest)) == pure(key, digest)


@settings(max_examples=20)
@given(keys, digests)
@example((ORDER - 1).to_bytes(32, "big"), b"\xff" * 32)
def test_eth_keys_signs_as_python_does(key: bytes, digest: bytes) -> None:
    made = secp256k1._by_eth_keys(key)
    assert (made.address, made.sign(digest)) == pure(key, digest)


@settings(max_examples=30)
@given(keys, digests)
def test_both_find_the_same_maker(key: bytes, digest: bytes) -> None:
    address, signature = pure(key, digest)
    raw = signature[:64] + bytes([signature[64] - 27])
    assert secp256k1._recovered_by_eth_keys(digest, raw) == address
    assert secp256k1._recovered_by_coincurve(digest, raw) == (address if HAS_COINCURVE else None)
    assert recovered(digest, signature) == address


@given(st.binary(min_size=20, max_size=20))
def test_capitals_are_those_of_the_library(raw: bytes) -> None:
    from eth_utils.address import to_checksum_address

    assert checksummed(raw.hex()) == checksummed("0X" + raw.hex().upper()) == to_checksum_address(raw)


SIGN = f"""
import sys
from tradesdk import LocalSigner
signer = LocalSigner.from_key("01" * 32)
assert signer.address == {ADDRESS!r}
assert signer.sign_digest(bytes.fromhex({DIGEST.hex()!r})).hex() == {SIGNATURE!r}
"""
LOADED = 'print(*sorted({"eth_account", "eth_keys", "eth_utils", "coincurve", "asyncio"} & set(sys.modules)))'


@needs_coincurve
def test_the_fast_way_loads_nothing_but_coincurve() -> None:
    assert run(SIGN + LOADED) == "coincurve"


def test_without_coincurve_the_same_bytes_come_from_eth_keys() -> None:
    assert run("import sys\nsys.modules['coincurve'] = None\n" + SIGN + "del sys.modules['coincurve']\n" + LOADED) == (
        "eth_keys eth_utils"
    )


@pytest.mark.long
def test_without_coincurve_the_maker_is_still_found() -> None:
    run(
        "import sys\nsys.modules['coincurve'] = None\n"
        "limit = sys.getrecursionlimit()\n"
        "from tradesdk.payments.signing.signer import check_signature\n"
        f"digest, signature = bytes.fromhex({DIGEST.hex()!r}), bytes.fromhex({SIGNATURE!r})\n"
        f"assert check_signature({ADDRESS!r}, digest, signature) == signature\n"
        "assert sys.getrecursionlimit() == limit\n"
    )


def test_nothing_is_loaded_before_a_key_is_there() -> None:
    assert run("import sys\nfrom tradesdk.payments.signing import signer, keystore\n" + LOADED) == ""
