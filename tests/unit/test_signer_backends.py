"""coincurve or eth-account, one signature: whichever signs, the same bytes, and no more of them loaded than needed."""

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tradesdk import ConfigError, LocalSigner
from tradesdk._sync.signing import ask_signer
from tradesdk.payments.signing.secp256k1 import ORDER, checksummed
from tradesdk.payments.signing.signer import sign_message, signed_authorization, typed_data

from .._payments import payment
from .._secrets import WALLET_KEY, Seen
from .._texts import texts

HAS_COINCURVE = importlib.util.find_spec("coincurve") is not None
needs_coincurve = pytest.mark.skipif(
    not HAS_COINCURVE,
    reason="coincurve is not installed, so the fast way of signing is NOT tested: install the extra fast",
)

# The known vector: the key of 32 ones, an authorization of $0.03.
DIGEST = bytes.fromhex("68d49d6f7fc2ec80392af8634f10a04401ae72761e1462f373768b38058fed8d")
ADDRESS = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
SIGNATURE = (
    "df041869fe73b44afa112ae557934674384f222789251693565b0565b35f4bc4"
    "12ad04a75cc27a00a41598f7574bd8e1481d6031a5ac18064dd68b5c54052a701b"
)

keys = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32, "big"))
digests = st.binary(min_size=32, max_size=32)
words = st.integers(0, 2**256 - 1)


@contextlib.contextmanager
def without_coincurve() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "coincurve", None)
        patch.setenv("ECC_BACKEND_CLASS", "eth_keys.backends.NativeECCBackend")  # eth-account would use coincurve too
        yield


@pytest.mark.long
@needs_coincurve
@settings(max_examples=30)
@given(keys, digests)
@example((1).to_bytes(32, "big"), bytes(32))
@example((ORDER - 1).to_bytes(32, "big"), b"\xff" * 32)
@example(b"\x01" * 32, ORDER.to_bytes(32, "big"))
def test_both_ways_sign_digests_alike(key: bytes, digest: bytes) -> None:
    fast = LocalSigner.from_key(key)
    signed = (fast.address, fast.sign_digest(digest), fast.purchase_secret())
    with without_coincurve():
        slow = LocalSigner.from_key(key)
        assert (slow.address, slow.sign_digest(digest), slow.purchase_secret()) == signed
        assert Account.from_key(key).unsafe_sign_hash(digest).signature == signed[1]


@pytest.mark.long
@settings(max_examples=15)
@given(keys, st.binary(min_size=20, max_size=20), st.tuples(words, words), digests, texts(max_size=40))
def test_both_ways_sign_payments_and_texts_as_eth_account_does(
    key: bytes, to: bytes, numbers: tuple[int, int], nonce: bytes, text: str
) -> None:
    account = Account.from_key(key)
    value, before = numbers
    paid = payment(
        payer=account.address,
        pay_to="0x" + to.hex(),
        amount=value,
        valid_before=before,
        nonce="0x" + nonce.hex(),
    )
    right = account.sign_typed_data(*typed_data(paid)).signature
    message = "0x" + bytes(account.sign_message(encode_defunct(text=text)).signature).hex()
    for way in (contextlib.nullcontext, without_coincurve):
        with way():
            signer = LocalSigner.from_key(key)
            assert (ask_signer(signed_authorization(signer, paid)), ask_signer(sign_message(signer, text))) == (
                right,
                message,
            )
            assert (ask_signer(signed_authorization(account, paid)), ask_signer(sign_message(account, text))) == (
                right,
                message,
            )


@given(st.binary(min_size=20, max_size=20))
def test_capitals_are_those_of_the_library(raw: bytes) -> None:
    from eth_utils.address import to_checksum_address

    assert checksummed(raw.hex()) == checksummed("0X" + raw.hex().upper()) == to_checksum_address(raw)


def test_an_error_of_eth_account_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its frames hold the key while it signs."""
    seen = Seen("a password that no file holds")
    monkeypatch.setitem(sys.modules, "coincurve", None)
    signer = LocalSigner.from_key(WALLET_KEY)
    monkeypatch.setenv("ECC_BACKEND_CLASS", "no.such.Backend")
    for use in (lambda: signer.sign_digest(bytes(32)), lambda: LocalSigner.from_key(WALLET_KEY)):
        with pytest.raises(ConfigError, match="could not") as caught:
            use()
        seen.error(caught.value)
        assert caught.value.__context__ is None
    assert seen.found() == []


SIGN = f"""
import sys
limit = sys.getrecursionlimit()
from tradesdk import LocalSigner
signer = LocalSigner.from_key("01" * 32)
assert signer.address == {ADDRESS!r}
assert signer.sign_digest(bytes.fromhex({DIGEST.hex()!r})).hex() == {SIGNATURE!r}
"""
WITHOUT = "import sys\nsys.modules['coincurve'] = None\n"
TEXT = "from tradesdk.payments.signing.signer import sign_message\nsign_message(signer, 'a text')\n"
KEYSTORE = "from tradesdk import create_keystore\ncreate_keystore(sys.argv[1], 'a password', work=2)\n"
FOREIGN = """
from tradesdk.payments.signing.signer import check_signature
signed = (b"\\x01", bytes(32), bytes(32))
from tradesdk.payments.signing.signer import digest_of
check_signature(signer.address, signed, signer.sign_digest(digest_of(signed)))
"""
LOADED = (
    "if sys.modules.get('coincurve', 0) is None: del sys.modules['coincurve']\n"
    "assert sys.getrecursionlimit() == limit\n"
    'print(*sorted({"eth_account", "coincurve", "asyncio"} & set(sys.modules)))'
)


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        pytest.param(SIGN, {"coincurve"}, marks=needs_coincurve),
        pytest.param(WITHOUT + SIGN, {"eth_account"}, marks=pytest.mark.long),
        pytest.param(WITHOUT + SIGN + FOREIGN, {"eth_account"}, marks=pytest.mark.long),
        pytest.param(SIGN + TEXT, {"coincurve"}, marks=[needs_coincurve, pytest.mark.long]),
        pytest.param(SIGN + KEYSTORE, {"coincurve", "eth_account"}, marks=[needs_coincurve, pytest.mark.long]),
        (
            "import sys\nlimit = sys.getrecursionlimit()\nfrom tradesdk.payments.signing import keystore, signer\n",
            set(),
        ),
    ],
    ids=["fast", "slow", "slow, of others", "texts", "keystores", "imported"],
)
def test_eth_account_is_imported_by_who_needs_it(tmp_path: Path, code: str, loaded: set[str]) -> None:
    """And leaves the limit of recursion alone: it would raise it so far that deep recursion ends the process."""
    command = [sys.executable, "-c", code + LOADED, str(tmp_path / "wallet.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) - {"asyncio"} == loaded
