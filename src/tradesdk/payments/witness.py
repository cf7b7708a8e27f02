"""Ask nodes whether USDC on Base took payments, what a wallet has, and what code an address has. No I/O.

It builds the requests, reads the responses strictly, and gives verdicts.

USDC uses a nonce of a payer once, forever: by a transfer, or by the payer's cancellation, which looks the same here.
An unused nonce is proof only at a finalized block whose time is after the last moment at which a signature of it was
valid.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .._values.http import json_bytes, parse_json
from .._values.payment import USDC
from .._values.text import printable
from .results import AccountCode, ChainVerdict
from .signing.contract_wallets import IS_VALID, call_data, inner_signature
from .signing.secp256k1 import checksummed

if TYPE_CHECKING:
    from .._values.payment import Payment

CHAIN_ID = 8453
STATE_CALL = "0xe94a0102"
"""The selector of `authorizationState(address,bytes32)`."""
BALANCE_CALL = "0x70a08231"
"""The selector of `balanceOf(address)`."""
AT_ONCE = 8
"""Nonces that are asked about in one request."""
MOST_FAILURES = 2

_QUANTITY = re.compile(r"0x(?:0|[1-9a-fA-F][0-9a-fA-F]{0,63})")
_WORD = re.compile(r"0x[0-9a-fA-F]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_DELEGATED = re.compile(r"0xef0100[0-9a-f]{40}")


class NodeFailedError(Exception):
    """A node gave no usable response; the text says why. Everything here that asks a node may raise it."""


class _RevertedError(NodeFailedError):
    """A contract reverted a call."""


@dataclass(frozen=True, slots=True)
class _Block:
    number: int
    hash: str
    time: int


Questions = Generator[bytes, bytes, list[ChainVerdict]]
"""Yields bodies of JSON-RPC batches, is sent their responses or thrown a `NodeFailedError`, and returns verdicts."""


def examine(payments: Sequence[Payment]) -> Questions:
    """Ask one node about payments: for its last finalized block, then about eight nonces at a time.

    After two failures the node is not asked again.
    """
    try:
        finalized = yield from _ask_base("eth_getBlockByNumber", ["finalized", False])
        block = _block(finalized)
    except NodeFailedError as problem:
        return [undecided(str(problem))] * len(payments)
    verdicts = [undecided("its payer or nonce cannot be read")] * len(payments)
    readable = [
        index for index, one in enumerate(payments) if _ADDRESS.fullmatch(one.payer) and _WORD.fullmatch(one.nonce)
    ]
    failures: list[NodeFailedError] = []
    for start in range(0, len(readable), AT_ONCE):
        part = readable[start : start + AT_ONCE]
        answers: list[Any] = failures[-1:] * len(part)
        if len(failures) < MOST_FAILURES:
            try:
                answers = yield from _ask(*(_state_call(payments[index], block) for index in part))
            except NodeFailedError as problem:
                answers = [problem] * len(part)
        for index, answer in zip(part, answers, strict=True):
            try:
                verdicts[index] = _verdict(payments[index], _result(answer), block)
            except NodeFailedError as problem:
                verdicts[index] = undecided(str(problem))
                if problem not in failures:
                    failures.append(problem)
    return verdicts


def examine_balance(address: str) -> Generator[bytes, bytes, int]:
    """Ask one node how much USDC an address has, in micro-dollars."""
    call = {"to": USDC, "data": BALANCE_CALL + address[2:].lower().rjust(64, "0")}
    balance = yield from _ask_base("eth_call", [call, "latest"])
    return int(_checked(balance, _WORD, "the balance"), 16)


def examine_code(address: str) -> Generator[bytes, bytes, AccountCode]:
    """Ask one node what code an address has."""
    found = yield from _ask_base("eth_getCode", [address, "latest"])
    code = _checked(found, _BYTES, "the code").lower()
    if code == "0x":
        return AccountCode(kind="none")
    if _DELEGATED.fullmatch(code):
        return AccountCode(kind="delegated", delegate=checksummed(code[8:]))
    return AccountCode(kind="contract")


def examine_signature(address: str, digest: bytes, signature: bytes) -> Generator[bytes, bytes, bool]:
    """Ask one node whether the contract at an address accepts a signature."""
    call = {"to": address, "data": call_data(digest, inner_signature(signature))}
    try:
        found = yield from _ask_base("eth_call", [call, "latest"])
    except _RevertedError:
        return False
    return _checked(found, _BYTES, "the answer of the wallet").lower() == IS_VALID + "0" * 56


def _ask_base(method: str, params: list[Any]) -> Generator[bytes, bytes, object]:
    """Make one call to a node, after a check that its chain is Base."""
    chain, answer = yield from _ask(("eth_chainId", []), (method, params))
    if (found := _quantity(_result(chain), "the chain id")) != CHAIN_ID:
        raise NodeFailedError(f"it is a node of chain {found}, not of Base ({CHAIN_ID})")
    return _result(answer)


def undecided(reason: str) -> ChainVerdict:
    return ChainVerdict(outcome="undecided", reason=reason)


def agreed(earlier: ChainVerdict | None, node: str, verdict: ChainVerdict) -> ChainVerdict:
    """Add one node's verdicts, by its name, to those so far: undecided unless all nodes agree."""
    if verdict.paid is None:
        return replace(verdict, reason=f"{node}: {verdict.reason}")
    if earlier is None or earlier.paid is verdict.paid:
        return earlier or verdict
    return undecided(f"the nodes disagree: {earlier.reason}; {node}: {verdict.reason}")


def _state_call(payment: Payment, block: _Block) -> tuple[str, list[Any]]:
    data = STATE_CALL + payment.payer[2:].lower().rjust(64, "0") + payment.nonce[2:].lower()
    # Time and state must be of the same block: behind a load balancer, two requests may reach two nodes.
    return "eth_call", [{"to": USDC, "data": data}, {"blockHash": block.hash, "requireCanonical": True}]


def _verdict(payment: Payment, state: object, block: _Block) -> ChainVerdict:
    used = int(_checked(state, _WORD, "the state of the nonce"), 16)
    if used > 1:
        raise NodeFailedError("the state of the nonce cannot be read")
    if used:
        return ChainVerdict(outcome="paid", reason=f"used at block {block.number}")
    until = max(payment.valid_before, payment.counts_until)  # the last end of all its signatures
    if block.time < until:
        return undecided(
            f"its last finalized block, {block.number}, is of {_clock(block.time)} UTC, and the payment was valid "
            f"until {_clock(until)} UTC: ask again in 20 minutes"
        )
    return ChainVerdict(outcome="unpaid", reason=f"not used at block {block.number}")


def _ask(*calls: tuple[str, list[Any]]) -> Generator[bytes, bytes, list[Any]]:
    """Send a batch and read the responses, in the order of the calls: each a result or a `NodeFailedError`."""
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls, 1)
    ]
    content = yield json_bytes(batch)
    try:
        found = parse_json(content)
    except ValueError:
        raise NodeFailedError("its answer is not JSON") from None
    if isinstance(found, Mapping) and "error" in found:  # the node refused the whole batch
        raise NodeFailedError(f"it failed with {_error(found['error'])}")
    if not isinstance(found, list) or len(found) != len(calls):
        raise NodeFailedError(f"its answer is not a list of {len(calls)}")
    answers: dict[int, Any] = {}
    for one in found:
        if not isinstance(one, Mapping) or one.get("jsonrpc") != "2.0" or ("result" in one) is ("error" in one):
            raise NodeFailedError("its answer is not JSON-RPC 2.0")
        number = one.get("id")
        if type(number) is not int or not 1 <= number <= len(calls) or number in answers:
            raise NodeFailedError("its answers do not have the ids of the requests")
        answers[number] = one.get("result")
        if "error" in one:
            text = f"{calls[number - 1][0]} failed with {_error(one['error'])}"
            is_revert = one["error"]["code"] == 3 or one["error"]["message"].startswith("execution reverted")
            answers[number] = _RevertedError(text) if is_revert else NodeFailedError(text)
    return [answers[number] for number in range(1, len(calls) + 1)]


def _error(error: object) -> str:
    code = error.get("code") if isinstance(error, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else None
    if type(code) is not int or not isinstance(message, str):
        raise NodeFailedError("its answer has an error that is not one of JSON-RPC")
    return f"error {code}: {printable(message, 200)}"


def _result(answer: object) -> object:
    if isinstance(answer, NodeFailedError):
        raise answer
    return answer


def _checked(value: object, pattern: re.Pattern[str], what: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise NodeFailedError(f"{what} cannot be read")
    return value


def _quantity(value: object, what: str) -> int:
    return int(_checked(value, _QUANTITY, what), 16)


def _block(value: object) -> _Block:
    if value is None:
        raise NodeFailedError("it has no finalized block")
    if not isinstance(value, Mapping):
        raise NodeFailedError("its finalized block cannot be read")
    return _Block(
        _quantity(value.get("number"), "the number of its finalized block"),
        _checked(value.get("hash"), _WORD, "the hash of its finalized block"),
        _quantity(value.get("timestamp"), "the time of its finalized block"),
    )


def _clock(time: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(time)
