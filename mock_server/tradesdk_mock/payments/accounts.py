"""Accounts of the chain with code: smart contract wallets (ERC-1271, ERC-6492), and keys delegated by EIP-7702."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.errors import MockServerError
from ..core.seeding import EVM_ADDRESS, checksum_address, keccak256
from . import signatures
from .signatures import Signable

if TYPE_CHECKING:
    from ..state.world import World

FACTORY = "0x" + keccak256(b"mock wallet factory")[12:].hex()
"""The contract that deploys wallets, at the address that owner and salt decide."""
DELEGATE = "0x" + keccak256(b"mock wallet delegate")[12:].hex()
"""The contract that keys are delegated to."""
MAGIC = bytes.fromhex("6492" * 16)
"""The end of a signature of a wallet that may not be deployed yet (ERC-6492)."""
# Selectors: createAccount(address,uint256) of the factory, isValidSignature(bytes32,bytes) of wallets, and the value
# for a valid signature.
_CREATE = bytes.fromhex("5fbfb9cf")
IS_VALID = "0x1626ba7e"
_YES = f"{IS_VALID}{'0' * 56}"
_NO = f"0xffffffff{'0' * 56}"
_WALLET_CODE = b"\xfe mock wallet"
_DELEGATED = b"\xef\x01\x00"
MOST_SALT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class MockWallet:
    """A smart contract wallet on the mock's chain. It accepts only signatures of its owner.

    Attributes:
        address: derived from owner and salt, deployed or not.
        owner: the address of the key that signs for it.
        factory: the contract that deploys it.
        factory_call: the data of the call that deploys it, in hexadecimal digits after 0x.
        deployed: whether it has code.
    """

    address: str
    owner: str
    factory: str
    factory_call: str
    deployed: bool

    def wrapped(self, signature: bytes) -> bytes:
        """A signature of the owner with the call that deploys the wallet (ERC-6492): valid before and after that."""
        call = bytes.fromhex(self.factory_call[2:])
        parts = [_word(bytes.fromhex(self.factory[2:])), _number(96), _number(128 + len(_padded(call)))]
        parts += [_number(len(call)), _padded(call), _number(len(signature)), _padded(signature)]
        return b"".join(parts) + MAGIC


def normalized(address: object) -> str:
    """An address in lower case; MockServerError if it is invalid."""
    if not isinstance(address, str) or not EVM_ADDRESS.fullmatch(address):
        raise MockServerError(f"{str(address)[:80]!r} is not an address: 0x and 40 hex digits")
    return address.lower()


def wallet(world: World, owner: str, salt: int) -> MockWallet:
    owner = normalized(owner)
    if isinstance(salt, bool) or not isinstance(salt, int) or not 0 <= salt <= MOST_SALT:
        raise MockServerError(f"salt: must be a whole number from 0 to {MOST_SALT}")
    call = _CREATE + _word(bytes.fromhex(owner[2:])) + _number(salt)
    address = _made_by(call)
    deployed = world.store.one("SELECT 1 FROM contracts WHERE address = ?", (address,)) is not None
    factory = checksum_address(FACTORY)
    return MockWallet(checksum_address(address), checksum_address(owner), factory, "0x" + call.hex(), deployed)


def deploy(world: World, found: MockWallet) -> None:
    sql = "INSERT OR IGNORE INTO contracts VALUES (?, ?)"
    world.store.run(sql, (found.address.lower(), found.owner.lower()))


def delegate(world: World, address: str) -> str:
    """Delegate a key's account. Returns its address with the checksum."""
    world.store.run("INSERT OR IGNORE INTO contracts VALUES (?, NULL)", (normalized(address),))
    return checksum_address(address)


def code(world: World, address: str) -> str:
    """The result of `eth_getCode`."""
    row = world.store.one("SELECT owner FROM contracts WHERE address = ?", (address,))
    if row is None:
        return "0x"
    return "0x" + (_WALLET_CODE if row[0] else _DELEGATED + bytes.fromhex(DELEGATE[2:])).hex()


def is_valid_signature(world: World, address: str, call: str) -> str | None:
    """The result of `isValidSignature` of an account with code; None if the call is another one, or cannot be read."""
    data = bytes.fromhex(call[2:])
    if not call.startswith(IS_VALID) or int.from_bytes(data[36:68], "big") != 64:
        return None
    signature = _bytes_at(data[4:], 64)
    return None if signature is None else _YES if _accepts(world, address, data[4:36], signature) else _NO


def has_signed(world: World, payer: str, signed: Signable, signature: bytes) -> bool:
    """Whether the token accepts a signature of the payer: by its code, deployed or not yet, or by its key."""
    digest, wrapper = signatures.digest_of(signed), _unwrapped(signature)
    if code(world, payer) != "0x":
        return _accepts(world, payer, digest, signature if wrapper is None else wrapper[2])
    if wrapper is None:
        return signatures.signer_of(digest, signature) == payer
    factory, call, inner = wrapper
    owner = _owner_in(call)
    is_wallet = factory == FACTORY and owner is not None and _made_by(call) == payer
    return is_wallet and signatures.signer_of(digest, inner) == owner


def deploy_for(world: World, payer: str, signature: bytes) -> None:
    """If a settled payment's signature includes the call, deploy its wallet, unless it has code."""
    wrapper = _unwrapped(signature)
    owner = None if wrapper is None else _owner_in(wrapper[1])
    if owner is not None and code(world, payer) == "0x":
        world.store.run("INSERT INTO contracts VALUES (?, ?)", (payer, owner))


def _accepts(world: World, address: str, digest: bytes, signature: bytes) -> bool:
    (owner,) = world.store.one("SELECT owner FROM contracts WHERE address = ?", (address,)) or (None,)
    if owner is None and world.gaps.delegated_payers == "refused":
        return False
    return signatures.signer_of(digest, signature) == (owner or address)


def _owner_in(call: bytes) -> str | None:
    """The owner of the wallet that a call of the factory deploys; None for any other call."""
    return "0x" + call[16:36].hex() if len(call) == 68 and call.startswith(_CREATE + bytes(12)) else None


def _made_by(call: bytes) -> str:
    """The address of the wallet that a call of the factory deploys, computed as in CREATE2."""
    salt, made = call[36:], keccak256(b"mock wallet of " + call[16:36])
    return "0x" + keccak256(b"\xff" + bytes.fromhex(FACTORY[2:]) + salt + made)[12:].hex()


def _unwrapped(signature: bytes) -> tuple[str, bytes, bytes] | None:
    """Factory, its call and the signature inside; None for a signature without them, or whose form is wrong."""
    if not signature.endswith(MAGIC):
        return None
    content = signature[: -len(MAGIC)]
    offsets = (int.from_bytes(content[at : at + 32], "big") for at in (32, 64))
    call, inner = (_bytes_at(content, offset) for offset in offsets)
    if call is None or inner is None or any(content[:12]):
        return None
    return "0x" + content[12:32].hex(), call, inner


def _bytes_at(content: bytes, offset: int) -> bytes | None:
    """Bytes after their length, as the ABI encodes them."""
    length = int.from_bytes(content[offset : offset + 32], "big")
    found = content[offset + 32 : offset + 32 + length]
    return found if len(found) == length and offset + 32 <= len(content) else None


def _word(content: bytes) -> bytes:
    return content.rjust(32, b"\0")


def _number(value: int) -> bytes:
    return value.to_bytes(32, "big")


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 32)
