"""USDC on Base as far as the official facilitator looks at it: balances, used nonces, transfers. No network.

The facilitator classes check signatures themselves; this token checks them again when it is asked to move money, as
the contract does. Smart contract wallets are those on the chain of a mock server: its node is asked for their code and
whether a signature is valid, and its control API deploys them.
"""

# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
from eth_abi.abi import decode, encode
from eth_account import Account
from eth_account.messages import SignableMessage, encode_typed_data
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
TRANSFER = keccak(text="transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)")[:4]
IS_VALID = keccak(text="isValidSignature(bytes32,bytes)")[:4]
FACILITATOR = "0x00000000000000000000000000000000000fAc17"
FACTORY = "0x" + keccak(text="mock wallet factory")[12:].hex()
"""Where the chain of a mock server has the contract that deploys wallets."""


class Reverted(Exception):
    """What a node says of a transaction that the contract refuses."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"execution reverted: {reason}")
        self.reason = reason


class Wallets:
    """The smart contract wallets on the chain of a mock server."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, trust_env=False)

    def ask(self, method: str, *params: Any) -> bytes:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": [*params, "latest"]}
        answer = self._http.post("/rpc", json=asked).raise_for_status().json()
        if "error" in answer:
            raise Reverted(answer["error"]["message"])
        return bytes.fromhex(answer["result"][2:])

    def is_valid(self, wallet: str, digest: bytes, signature: bytes) -> bytes:
        data = IS_VALID + encode(["bytes32", "bytes"], [digest, signature])
        return self.ask("eth_call", {"to": wallet, "data": "0x" + data.hex()})[:4]

    def made_by(self, call: bytes, *, deploy: bool = False) -> dict[str, Any]:
        """The wallet that a call of the factory, `createAccount(owner, salt)`, deploys."""
        owner, salt = decode(["address", "uint256"], call[4:])
        path = f"/_mock/payments/wallets/{owner}"
        answer = self._http.put(path, json={"salt": salt}) if deploy else self._http.get(path, params={"salt": salt})
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


class Chain:
    """A signer as the facilitator wants it, with the chain behind it.

    Attributes:
        wallets: the smart contract wallets; None: there are none.
        deploys: whether the facilitator deploys them.
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
        self.wallets: Wallets | None = None
        self.deploys = False
        self._deployments: set[str] = set()
        self._used: set[tuple[str, bytes]] = set()
        self._lock = threading.Lock()

    def get_addresses(self) -> list[str]:
        return [FACILITATOR]

    def get_chain_id(self) -> int:
        return 8453

    def get_code(self, address: str) -> bytes:
        if address.lower() == USDC.lower():
            return b"\x60"
        return b"" if self.wallets is None else self.wallets.ask("eth_getCode", address)

    def get_balance(self, address: str, token_address: str) -> int:
        return self.balances.get(address.lower(), 0)

    def read_contract(self, address: str, abi: Any, function_name: str, *args: Any) -> Any:
        """A call that changes nothing: a transfer that is tried out, a wallet's word, or a bundle of calls."""
        if function_name == "transferWithAuthorization":
            with self._lock:
                self._check(address, *args)
            return None
        if function_name == "isValidSignature" and self.wallets is not None:
            return self.wallets.is_valid(address, *args)
        if function_name == "tryAggregate":
            made: dict[str, str] = {}
            return [self._try(target, bytes(data), made) for target, data in args[1]]
        raise Reverted(f"no function {function_name}")

    def _try(self, target: str, data: bytes, made: dict[str, str]) -> tuple[bool, bytes]:
        """One call of a bundle. `made`: owners of the wallets that earlier calls of it would deploy."""
        if target.lower() == FACTORY and self.wallets is not None:
            wallet = self.wallets.made_by(data)
            made[wallet["address"].lower()] = wallet["owner"]
            return True, b""
        if data[:4] == TRANSFER:
            kinds = ["address", "address", "uint256", "uint256", "uint256", "bytes32", "bytes"]
            try:
                self._check(target, *decode(kinds, data[4:]), made=made)
            except Reverted as error:
                return False, keccak(text="Error(string)")[:4] + encode(["string"], [error.reason])
            return True, b""
        return self._answer(data)

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

    def _check(self, token: str, *args: Any, made: dict[str, str] | None = None) -> None:
        """The rules of `transferWithAuthorization`, in the contract's order and words.

        It has two forms: the signature as v, r and s, or as bytes.
        """
        sender, to, value, after, before, nonce, *signed = args
        signature: bytes = signed[0] if len(signed) == 1 else signed[1] + signed[2] + bytes([signed[0]])
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
        signable = encode_typed_data(domain_data=DOMAIN, message_types=TYPES, message_data=message)
        if not self._has_signed(sender, signable, signature, made or {}):
            raise Reverted("FiatTokenV2: invalid signature")
        if self.balances.get(sender.lower(), 0) < value:
            raise Reverted("ERC20: transfer amount exceeds balance")

    def _has_signed(self, sender: str, signable: SignableMessage, signature: bytes, made: dict[str, str]) -> bool:
        """A contract says so itself; else the signature is of the key, or of that which a new wallet will accept."""
        if self.wallets is not None and self.get_code(sender):
            digest = keccak(b"\x19" + b"".join(signable))
            return self.wallets.is_valid(sender, digest, signature) == IS_VALID
        owner = made.get(sender.lower(), sender)
        return bool(Account.recover_message(signable, signature=signature).lower() == owner.lower())

    def send_transaction(self, to: str, data: bytes) -> str:
        """Deploy a wallet. The transaction's hash."""
        if to.lower() != FACTORY or self.wallets is None:
            raise Reverted("no such contract")
        self.wallets.made_by(data, deploy=True)
        transaction = "0x" + keccak(data).hex()
        self._deployments.add(transaction)
        return transaction

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
        if tx_hash in self._deployments:
            return TransactionReceipt(status=1, block_number=1, tx_hash=tx_hash, logs=[])
        with self._lock:
            if self.pending > 0:
                self.pending -= 1
                raise TimeoutError("no receipt yet")
            made = next(one for one in self.transfers if one["transaction"] == tx_hash)
        topics = [TRANSFERRED, *("0x" + made[end][2:].lower().rjust(64, "0") for end in ("from", "to"))]
        log = {"address": USDC, "topics": topics, "data": "0x" + made["value"].to_bytes(32, "big").hex()}
        return TransactionReceipt(status=1, block_number=1, tx_hash=tx_hash, logs=[log])
