"""USDC on Base as far as the official facilitator looks at it: balances, used nonces, transfers. No network.

The facilitator classes check signatures themselves; this token checks them again when it is asked to move money, as
the contract does.
"""

# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

from __future__ import annotations

import threading
import time
from typing import Any

from eth_abi.abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak
from x402.mechanisms.evm.types import TransactionReceipt

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
DOMAIN = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": USDC}
FIELDS: tuple[str, ...] = ("from", "to", "value", "validAfter", "validBefore", "nonce")
TYPES = {
    "TransferWithAuthorization": [
        {"name": name, "type": kind}
        for name, kind in zip(FIELDS, ("address", "address", "uint256", "uint256", "uint256", "bytes32"), strict=True)
    ]
}
TRANSFERRED = "0x" + keccak(text="Transfer(address,address,uint256)").hex()
SELECTORS = {
    keccak(text=signature)[:4]: signature.partition("(")[0]
    for signature in ("balanceOf(address)", "name()", "version()", "authorizationState(address,bytes32)")
}
FACILITATOR = "0x00000000000000000000000000000000000fAc17"


class Reverted(Exception):
    """What a node says of a transaction that the contract refuses."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"execution reverted: {reason}")


class Chain:
    """A signer as the facilitator wants it, with the chain behind it.

    Attributes:
        balances: micro-dollars by lower-case address.
        transfers: every transfer that was made, in order.
        revert: the next transaction is refused with this reason.
        pending: so many waits for a receipt fail, although the transfer is made.
    """

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self.transfers: list[dict[str, Any]] = []
        self.revert: str | None = None
        self.pending = 0
        self._used: set[tuple[str, bytes]] = set()
        self._lock = threading.Lock()

    def get_addresses(self) -> list[str]:
        return [FACILITATOR]

    def get_chain_id(self) -> int:
        return 8453

    def get_code(self, address: str) -> bytes:
        """Only the token is a contract; payers are plain accounts."""
        return b"\x60" if address.lower() == USDC.lower() else b""

    def get_balance(self, address: str, token_address: str) -> int:
        return self.balances.get(address.lower(), 0)

    def read_contract(self, address: str, abi: Any, function_name: str, *args: Any) -> Any:
        """A call that changes nothing: a transfer that is tried out, or questions in one bundle."""
        if function_name == "transferWithAuthorization":
            with self._lock:
                self._check(address, *args)
            return None
        if function_name == "tryAggregate":
            return [self._answer(bytes(data)) for _, data in args[1]]
        raise Reverted(f"no function {function_name}")

    def _answer(self, data: bytes) -> tuple[bool, bytes]:
        asked = SELECTORS.get(data[:4])
        who = "0x" + data[16:36].hex()
        if asked == "balanceOf":
            return True, encode(["uint256"], [self.balances.get(who, 0)])
        if asked == "authorizationState":
            return True, encode(["bool"], [(who, data[36:68]) in self._used])
        if asked in ("name", "version"):
            return True, encode(["string"], [DOMAIN[asked]])
        return False, b""

    def _check(self, token: str, *args: Any) -> None:
        """The rules of `transferWithAuthorization`, in the contract's order and words."""
        sender, to, value, after, before, nonce, v, r, s = args
        now = int(time.time())
        if token.lower() != USDC.lower():
            raise Reverted("no such token")
        if now <= after:
            raise Reverted("FiatTokenV2: authorization is not yet valid")
        if now >= before:
            raise Reverted("FiatTokenV2: authorization is expired")
        if (sender.lower(), nonce) in self._used:
            raise Reverted("FiatTokenV2: authorization is used or canceled")
        message: dict[str, Any] = dict(zip(FIELDS, (sender, to, value, after, before, nonce), strict=True))
        signed = encode_typed_data(domain_data=DOMAIN, message_types=TYPES, message_data=message)
        recovered = Account.recover_message(signed, vrs=(v, int.from_bytes(r, "big"), int.from_bytes(s, "big")))
        if recovered.lower() != sender.lower():
            raise Reverted("FiatTokenV2: invalid signature")
        if self.balances.get(sender.lower(), 0) < value:
            raise Reverted("ERC20: transfer amount exceeds balance")

    def write_contract(self, address: str, abi: Any, function_name: str, *args: Any, data_suffix: Any = None) -> str:
        """Move the money. The transaction's hash."""
        with self._lock:
            reason, self.revert = self.revert, None
            if reason is not None:
                raise Reverted(reason)
            self._check(address, *args)
            sender, to, value, nonce = args[0], args[1], args[2], args[5]
            self._used.add((sender.lower(), nonce))
            self.balances[sender.lower()] -= value
            self.balances[to.lower()] = self.balances.get(to.lower(), 0) + value
            transaction = "0x" + keccak(nonce + len(self.transfers).to_bytes(4, "big")).hex()
            self.transfers.append(
                {"from": sender, "to": to, "value": value, "nonce": "0x" + nonce.hex(), "transaction": transaction}
            )
            return transaction

    def wait_for_transaction_receipt(self, tx_hash: str) -> Any:
        with self._lock:
            if self.pending > 0:
                self.pending -= 1
                raise TimeoutError("no receipt yet")
            made = next(one for one in self.transfers if one["transaction"] == tx_hash)
        topics = [TRANSFERRED, *("0x" + made[end][2:].lower().rjust(64, "0") for end in ("from", "to"))]
        log = {"address": USDC, "topics": topics, "data": "0x" + made["value"].to_bytes(32, "big").hex()}
        return TransactionReceipt(status=1, block_number=1, tx_hash=tx_hash, logs=[log])
