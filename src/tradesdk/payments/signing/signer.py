"""Signers, and what they sign: USDC transfers (EIP-3009, as EIP-712 typed data or its digest) and messages (EIP-191).

The signing domain of USDC never changes, so its hash is a constant and only two hashes are computed: twenty times
faster than eth-account's encoder of typed data. The tests compare both.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar, runtime_checkable

from ..._http.arguments import argument_called
from ..._system.interrupts import failures
from ..._values.frames import hides_locals
from ..._values.payment import USDC
from ...errors import ConfigError, InvalidArgumentError
from .secp256k1 import ORDER, Opened, checksummed, keccak256, opened, recovered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._values.payment import Payment
    from .keystore import Password

DOMAIN_SEPARATOR = bytes.fromhex("02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f")
"""The hash of `EIP712Domain`: name `USD Coin`, version `2`, chain 8453, the contract `guards.USDC`."""
TYPE_HASH = bytes.fromhex("7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267")
"""The hash of `TransferWithAuthorization` with its six fields."""

ADDRESS_PAD = bytes(12)
KEY_VARIABLE, KEYSTORE_VARIABLE = "TRADE_WALLET_KEY", "TRADE_KEYSTORE"
_IF_CONTRACT = "; that of a smart contract wallet says is_contract = True"
_HEX_SIGNATURE = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})*)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")  # a key has 64 digits


T = TypeVar("T")

Asked: TypeAlias = Generator[Callable[[], Any], Any, T]
"""A generator that yields calls of a signer's methods, and is sent their results. `_async.signing` runs it."""
Signable: TypeAlias = tuple[bytes, bytes, bytes]
"""What EIP-191 signs: version, header, body. A `SignableMessage` of eth-account is one."""
TypedData: TypeAlias = tuple[dict[str, Any], dict[str, list[dict[str, str]]], dict[str, Any]]
"""Domain, types and message of EIP-712."""


class SignedMessage(Protocol):
    """A signature in an object, as the accounts of eth-account return it."""

    @property
    def signature(self) -> bytes | str: ...


Signature: TypeAlias = bytes | bytearray | memoryview | str | SignedMessage
"""r, s and v: 65 bytes, or as many in hexadecimal digits after 0x, or an object with such a `signature`.

v may be 27, 28, 0 or 1, or left out (64 bytes), and s may be in the upper half.
"""


@runtime_checkable
class DigestSigner(Protocol):
    """Anything that signs 32 bytes for one address: a key in this process, a key service.

    Its methods may block; the async clients call them in a thread. They may be `async`: the async clients await the
    results in the caller's event loop, and the blocking clients refuse them. `address` must not be async.
    For named purchases, a method `purchase_secret()` may return 32 secret bytes, always the same; without it,
    TRADE_PURCHASE_SECRET must be set.

    With `is_contract = True`, the address is a smart contract wallet. Its signatures may be any bytes, at most 3 KiB
    (ERC-1271; ERC-6492 before the wallet is deployed), and are sent as they are.
    """

    @property
    def address(self) -> str:
        """The address of the payer."""
        ...

    def sign_digest(self, digest: bytes, /) -> Signature | Awaitable[Signature]:
        """Sign 32 bytes."""
        ...


@runtime_checkable
class TypedDataSigner(Protocol):
    """Anything that signs EIP-712 typed data for one address: a wallet service, a hardware wallet.

    It sees the amount and the recipient, so its own policy can limit them. An account of eth-account is one. As with
    `DigestSigner`, its method may block or be `async`, and it may be a contract (`is_contract = True`).
    """

    @property
    def address(self) -> str:
        """The address of the payer."""
        ...

    def sign_typed_data(
        self, domain: dict[str, Any], types: dict[str, list[dict[str, str]]], message: dict[str, Any], /
    ) -> Signature | Awaitable[Signature]:
        """Sign typed data.

        Args:
            domain: the EIP-712 domain of USDC on Base: `name`, `version`, `chainId` (an int), `verifyingContract`.
            types: the fields of `TransferWithAuthorization`, in order; without `EIP712Domain`.
            message: `from` and `to` (checksummed), `value` (micro-dollars), `validAfter` and `validBefore` (Unix
                seconds) as ints, `nonce` as 64 hexadecimal digits after 0x.
        """
        ...


Signer: TypeAlias = DigestSigner | TypedDataSigner
"""Anything that signs payments for one address. If it has both methods, payments are signed as typed data."""


class LocalSigner:
    """Signs with a private key in this process. It never shows the key, and cannot be copied or pickled.

    With the extra `fast` (coincurve) a signature takes about 30 µs. Without it eth-account signs, with the same bytes:
    about 4 ms, and half a second more for the first one.
    """

    __slots__ = ("__lock", "__opened", "__source")

    @hides_locals
    def __init__(self, key: bytes) -> None:
        """Use `from_key`; `key` is 32 bytes."""
        self.__begin(None)  # a debugger shows one that could not be made
        self.__opened: Opened | None = opened(key)

    @classmethod
    @hides_locals
    def from_key(cls, key: str | bytes) -> LocalSigner:
        """A signer from a private key: 32 bytes, or 64 hexadecimal digits with or without 0x.

        Raises:
            ConfigError: the key has another form; the error never shows it.
        """
        return cls.__of(opened(key))

    @classmethod
    @hides_locals
    def from_env(cls, name: str = KEY_VARIABLE) -> LocalSigner:
        """A signer from the environment: TRADE_WALLET_KEY, or else the keystore that TRADE_KEYSTORE names.

        The keystore's password is the first line of the file that TRADE_KEYSTORE_PASSWORD_FILE names.

        Args:
            name: another variable with a private key, in the form that `from_key` takes. No keystore is read then.

        Raises:
            ConfigError: no variable is set, or the variable, the keystore or the password cannot be used; the error
                names it and never shows its value.
        """
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):  # not shown: it may be the key itself
            message = "name must be the name of an environment variable"
            raise ConfigError(message, hint="write name='TRADE_WALLET_KEY'; a key itself goes into from_key")
        if not os.environ.get(name, "").strip():
            if name == KEY_VARIABLE and os.environ.get(KEYSTORE_VARIABLE):
                return cls.from_keystore(os.environ[KEYSTORE_VARIABLE])
            raise ConfigError(
                f"{name} is not set: it must be a private key, 64 hexadecimal digits after 0x",
                code="invalid_private_key",
            )
        return cls.__of(opened(os.environ[name], f"{name}: "))

    @classmethod
    @hides_locals
    def from_keystore(cls, path: str | os.PathLike[str], password: Password | None = None) -> LocalSigner:
        """A signer from an encrypted keystore file (version 3, as wallets and `trade pay key new` write it).

        Opening takes about a second, as the password is hashed many times.

        Args:
            path: the file; only its owner may have access to it.
            password: the password, or a function that returns it, called after the file is checked; by default the
                first line of the file that TRADE_KEYSTORE_PASSWORD_FILE names, which only you may read.

        Raises:
            ConfigError: the file is missing, unreadable, open to others, damaged or of another version, or the password
                is wrong. The error names the file and shows neither key nor password. Errors of the function are
                passed on.
        """
        from .keystore import unlock  # few programs use it

        return cls.__of(unlock(path, password))

    @classmethod
    @hides_locals
    def from_callable(cls, source: Callable[[], str | bytes]) -> LocalSigner:
        """A signer whose key a function returns, for example from a vault or the system's keyring.

        It is called once, at the first use of `address` or `sign_digest`, in the thread of that use. Its errors are
        passed on, and the next use calls it again.

        Raises:
            ConfigError: it returned no key; raised at the first use, without the key.
        """
        if not callable(source):  # not shown: it may be the key itself
            message = "source must be a function that returns the private key"
            raise ConfigError(message, hint="pass a function, such as lambda: vault.read(); a key goes into from_key")
        return cls.__of(None, source)

    @classmethod
    def __of(cls, ready: Opened | None, source: Callable[[], str | bytes] | None = None) -> LocalSigner:
        signer = cls.__new__(cls)
        signer.__begin(ready, source)
        return signer

    def __begin(self, ready: Opened | None, source: Callable[[], str | bytes] | None = None) -> None:
        self.__opened = ready
        self.__source = source
        self.__lock = threading.RLock()

    @property
    def address(self) -> str:
        """The address, checksummed (EIP-55)."""
        return (self.__opened or self.__load()).address

    @property
    def _is_fast(self) -> bool:
        """Whether the key is loaded, and coincurve signs with it."""
        return self.__opened is not None and self.__opened.is_fast

    def sign_digest(self, digest: bytes, /) -> bytes:
        """Sign 32 bytes; the result is 65 bytes: r, s, and v as 27 or 28.

        Deterministic (RFC 6979), and s is in the lower half, as contracts require.
        """
        if len(digest) != 32:
            raise ValueError(f"a digest must have 32 bytes, not {len(digest)}")
        return (self.__opened or self.__load()).sign(digest)

    def purchase_secret(self) -> bytes:
        """The secret for nonces of named purchases: 32 bytes, derived from the key (HKDF-SHA256), always the same."""
        return (self.__opened or self.__load()).purchase_secret()

    @hides_locals
    def __load(self) -> Opened:
        with self.__lock:
            if self.__opened is None:
                assert self.__source is not None  # noqa: S101 - there is a key, or who gives it
                self.__opened = opened(self.__source(), "the function for the key returned something else: ")
                self.__source = None  # the function may hold secrets
            return self.__opened

    def __repr__(self) -> str:
        return f"LocalSigner({self.__opened.address if self.__opened else 'key not loaded yet'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signer cannot be pickled: it holds a private key")


@argument_called("chain_id", not_="chain")
def wallet_message(address: str, chain_id: int) -> str:
    """The text to sign to prove that a wallet is yours. The service does not document it; this is our assumption."""
    return f"Trade wallet verification\nAddress: {address}\nChain ID: {chain_id}"


def checked_signer(signer: Signer) -> Signer:
    """Check that it is a signer. The error does not show it: it may be a private key."""
    names = set(dir(signer))  # not isinstance, which reads `address` before Python 3.12, and that may block
    if isinstance(signer, type) or "address" not in names or not names & {"sign_digest", "sign_typed_data"}:
        given = "class" if isinstance(signer, type) else type(signer).__name__
        raise InvalidArgumentError(
            f"the signer must have address, and sign_typed_data or sign_digest; a {given} lacks them",
            hint="for a private key: LocalSigner.from_key(…)",
        )
    return signer


class Done(NamedTuple, Generic[T]):
    """The generator has ended, with a result."""

    value: T


class Pending(NamedTuple):
    """The signer returned something to await."""

    value: Awaitable[Any]


def advance(steps: Asked[T], step: Callable[[], Callable[[], Any]]) -> Done[T] | Pending:
    """Run `step` and the signer's methods until there is a result, or something to await. It blocks."""
    try:
        ask = step()
        while True:
            given, failed = None, None
            try:
                given = ask()
            except failures(Exception) as error:
                failed = error
            if isinstance(given, Awaitable):
                return Pending(given)
            # Outside of the handler, or the signer's error, which may show a key, would be the context of ours.
            ask = steps.send(given) if failed is None else steps.throw(failed)
    except StopIteration as done:
        return Done(done.value)


def ask_signer(steps: Asked[T]) -> T:
    """Run the generator to its end. An awaitable from the signer is sent back as it is, to be refused."""
    found = advance(steps, partial(next, steps))
    while isinstance(found, Pending):
        found = advance(steps, partial(steps.send, found.value))
    return found.value


def signed_authorization(signer: Signer, payment: Payment) -> Asked[bytes]:
    """Sign a payment's transfer: 65 bytes, see `check_signature`; of a contract any bytes. Errors are passed on.

    As typed data if the signer can, else by digest. The signature must be of the digest computed here.
    """
    signable = authorization_signable(payment)
    digest = digest_of(signable)
    if type(signer) is LocalSigner:
        return signer.sign_digest(digest)
    if isinstance(signer, TypedDataSigner):
        signature: Signature = yield partial(signer.sign_typed_data, *typed_data(payment))
    else:
        signature = yield partial(signer.sign_digest, digest)
    return contract_signature(signature) if is_contract(signer) else check_signature(payment.payer, signable, signature)


def sign_message(signer: Signer, message: str) -> Asked[str]:
    """Sign a text as wallets do (EIP-191, `personal_sign`): 65 bytes as hexadecimal digits after 0x."""
    content = message.encode()
    signable = b"E", b"thereum Signed Message:\n%d" % len(content), content
    sign_hash = getattr(signer, "sign_digest", None) or getattr(signer, "unsafe_sign_hash", None)  # of eth-account
    if sign_hash is None:
        raise InvalidArgumentError(
            "the signer signs typed data only, and a text needs sign_digest",
            hint="sign the text with the wallet itself, and pass it: wallets.connect(…, signature=…)",
        )
    signature: Signature = yield partial(sign_hash, digest_of(signable))
    if is_contract(signer):
        return "0x" + contract_signature(signature).hex()
    return "0x" + check_signature(signer.address, signable, signature).hex()


def check_signature(address: str, signable: Signable, signature: Signature) -> bytes:
    """A signature of this address as contracts require it: 65 bytes, r, s in the lower half, v as 27 or 28.

    Key services may return v as 0 or 1 or not at all, and s in the upper half. All are corrected. Errors do not show
    the signature.
    """
    raw = _raw(signature)
    if len(raw) not in (64, 65):
        raise _bad_signature(
            f"returned a signature of {len(raw)} bytes; 65 are needed: r, s and v (64 without v){_IF_CONTRACT}"
        )
    s, v = int.from_bytes(raw[32:64], "big"), raw[64:]
    possible = [number + 27 if number < 2 else number for number in v or (27, 28)]
    if not {*possible} <= {27, 28}:
        raise _bad_signature(f"returned a signature with v = {v[0]}; it must be 27 or 28, or 0 or 1")
    if ORDER // 2 < s < ORDER:
        s, possible = ORDER - s, [55 - number for number in possible]  # the same signature with the mirrored point
    digest, makers = digest_of(signable), []
    for number in possible:
        corrected = raw[:32] + s.to_bytes(32, "big") + bytes([number])
        try:
            makers.append(recovered(digest, corrected))
            if makers[-1] == checksummed(address):
                return corrected
        except failures(Exception):  # numbers out of range, points not on the curve
            pass
    if not makers:
        raise _bad_signature("returned a signature that no key can have made")
    others = " or ".join(makers)
    raise _bad_signature(f"signed other data, or as {others}, and its address is {checksummed(address)}{_IF_CONTRACT}")


def is_contract(signer: object) -> bool:
    """Whether a signer says that its address is a smart contract wallet."""
    return getattr(signer, "is_contract", False) is True


def contract_signature(signature: Signature) -> bytes:
    """The signature of a smart contract wallet. Only the wallet can check it; here only the form is (ERC-6492)."""
    from .contract_wallets import LONGEST, inner_signature  # few programs use it

    raw = _raw(signature, f"1 to {LONGEST:,} bytes are needed")
    if not 1 <= len(raw) <= LONGEST:
        raise _bad_signature(f"returned a signature of {len(raw):,} bytes; 1 to {LONGEST:,} are needed")
    try:
        inner_signature(raw)
    except ValueError:
        raise _bad_signature(
            "returned a signature that ends as one of ERC-6492, and does not have its form: factory, call and signature"
        ) from None
    return raw


def _raw(given: object, needed: str = "65 bytes are needed: r, s and v") -> bytes:
    not_async(given)
    kind = type(given).__name__
    if not isinstance(given, bytes | bytearray | memoryview | str):
        given = getattr(given, "signature", None)
    if isinstance(given, str):
        digits = _HEX_SIGNATURE.fullmatch(given)
        if digits is None:
            raise _bad_signature("returned text that is not hexadecimal digits after 0x")
        return bytes.fromhex(digits[1])
    if not isinstance(given, bytes | bytearray | memoryview):
        raise _bad_signature(f"returned a {kind}; {needed}")
    return bytes(given)


def not_async(given: object) -> None:
    """Refuse an awaitable from the signer where nothing can await it."""
    if isinstance(given, Awaitable):
        close = getattr(given, "close", None)
        if callable(close):
            close()  # a coroutine that is never awaited would warn
        raise ConfigError(
            "the signer is async, and this client is blocking: use AsyncMarketClient and AsyncTradeClient, "
            "or a signer whose methods return the signature itself",
            code="invalid_signer",
        )


def _bad_signature(what: str) -> ConfigError:
    return ConfigError(f"the signer {what}", code="invalid_signer")


def digest_of(signable: Signable) -> bytes:
    return keccak256(b"\x19" + b"".join(signable))


def authorization_signable(payment: Payment) -> Signable:
    """A payment's transfer as it is signed (EIP-712). A ValueError means that it cannot be signed."""
    try:
        numbers = payment.amount.to_bytes(32, "big")
        numbers += bytes(32) + payment.valid_before.to_bytes(32, "big")  # `validAfter` is 0
    except OverflowError:
        raise ValueError("the numbers of an authorization must be from 0 to 2^256 - 1") from None
    payer, to = from_hex(payment.payer, 20), from_hex(payment.pay_to, 20)
    fields = TYPE_HASH + ADDRESS_PAD + payer + ADDRESS_PAD + to + numbers + from_hex(payment.nonce, 32)
    return b"\x01", DOMAIN_SEPARATOR, keccak256(fields)


def typed_data(payment: Payment) -> TypedData:
    """The typed data of a payment's transfer. A new object for each call, as signers may change it."""
    from ..guards import DOMAIN_NAME, DOMAIN_VERSION  # few programs use it

    fields = (
        ("from", "address", checksummed(payment.payer)),
        ("to", "address", checksummed(payment.pay_to)),
        ("value", "uint256", payment.amount),
        ("validAfter", "uint256", 0),
        ("validBefore", "uint256", payment.valid_before),
        ("nonce", "bytes32", payment.nonce),
    )
    domain = {"name": DOMAIN_NAME, "version": DOMAIN_VERSION, "chainId": 8453, "verifyingContract": USDC}
    types = {"TransferWithAuthorization": [{"name": name, "type": kind} for name, kind, _ in fields]}
    return domain, types, {name: value for name, _, value in fields}


def from_hex(text: str, size: int) -> bytes:
    value = bytes.fromhex(text[2:]) if text.startswith("0x") else b""
    if len(value) != size or len(text) != 2 + 2 * size:  # fromhex would skip spaces
        raise ValueError(f"must be {size} bytes as hexadecimal digits after 0x")
    return value
