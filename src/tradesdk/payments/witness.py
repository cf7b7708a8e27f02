"""Whether USDC on Base took a payment, as nodes tell it: questions, strict reading of answers, verdict. No I/O.

USDC takes a nonce of a payer once, forever: by a transfer or by a cancellation. An unused nonce is proof only at a
finalized block whose time is past the last moment at which a signature of it was valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .._values.http import parse_json
from .._values.money import usd
from .._values.text import printable
from .guards import USDC
from .results import ChainVerdict
from .signing.secp256k1 import checksummed

if TYPE_CHECKING:
    from .._values.payment import Payment

CHAIN_ID = 8453
STATE_CALL = "0xe94a0102"
"""The selector of `authorizationState(address,bytes32)`."""
USED = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
"""The topic of `AuthorizationUsed(address,bytes32)`."""
CANCELED = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
"""The topic of `AuthorizationCanceled(address,bytes32)`."""
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
"""The topic of `Transfer(address,address,uint256)`."""

_BLOCK_SECONDS = 2
_CLOCK_SLACK = 1_000
"""Seconds before the first signature from which logs are asked for: local clocks may be that wrong."""
_QUANTITY = re.compile(r"0x(?:0|[1-9a-fA-F][0-9a-fA-F]{0,63})")
_WORD = re.compile(r"0x[0-9a-fA-F]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationQuery:
    """The nonce to ask about, and what was signed with it.

    Attributes:
        payer: the paying address.
        nonce: 32 bytes as hexadecimal digits after 0x.
        amount: the largest amount that was signed, in micro-dollars.
        valid_before: the latest end of a validity that was signed, in Unix seconds.
        since: when it was first signed, in Unix seconds.
    """

    payer: str
    nonce: str
    amount: int
    valid_before: int
    since: float

    @classmethod
    def of(cls, payment: Payment) -> AuthorizationQuery:
        """The query about a payment of the ledger."""
        return cls(
            payer=payment.payer,
            nonce=payment.nonce,
            amount=payment.counted,
            valid_before=max(payment.valid_before, payment.counts_until),  # of all signatures
            since=payment.created,
        )


class _UndecidedError(Exception):
    """Why an answer decides nothing."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer of a batch: its result, or the error that the node gave instead."""

    method: str
    result: Any
    error: str | None

    def value(self) -> Any:
        if self.error is not None:
            raise _UndecidedError(f"{self.method} failed with {self.error}")
        return self.result


@dataclass(frozen=True, slots=True)
class _Block:
    number: int
    hash: str
    time: int


@dataclass(frozen=True, slots=True)
class _Log:
    """An event of USDC."""

    topics: tuple[str, ...]
    data: str
    block: int
    transaction: str
    index: int


Questions = Generator[bytes, bytes, ChainVerdict]
"""Yields the bodies of JSON-RPC batches, is sent the bodies of their answers, and returns the verdict."""


def examine(query: AuthorizationQuery) -> Questions:
    """Ask one node about a nonce: two batches of two requests; one or two single ones more for a used nonce."""
    block: _Block | None = None
    try:
        chain, finalized = yield from _ask(
            ("eth_chainId", []),
            ("eth_getBlockByNumber", ["finalized", False]),
        )
        found = _quantity(chain.value(), "the chain id")
        if found != CHAIN_ID:
            raise _UndecidedError(f"it is a node of chain {found}, not of Base ({CHAIN_ID})")
        block = _block(finalized.value())
        return (yield from _examine_at(block, query))
    except _UndecidedError as problem:
        return ChainVerdict(outcome="undecided", reason=str(problem), block=None if block is None else block.number)


def undecided(reason: str, block: int | None = None) -> ChainVerdict:
    """The verdict when a node cannot be asked."""
    return ChainVerdict(outcome="undecided", reason=reason, block=block)


def agreed(verdicts: Sequence[tuple[str, ChainVerdict]]) -> ChainVerdict:
    """The verdict of several nodes, each with its name: undecided unless all agree."""
    for name, verdict in verdicts:
        if verdict.paid is None:
            return replace(verdict, reason=f"{name}: {verdict.reason}")
    (first, said), *others = verdicts
    for name, verdict in others:
        if verdict.paid != said.paid or _contradict(said, verdict):
            reason = f"the nodes disagree: {first}: {said.reason}; {name}: {verdict.reason}"
            return undecided(reason, said.block)
        if said.transaction is None and verdict.transaction is not None:
            first, said = name, verdict
    return said


def _contradict(one: ChainVerdict, other: ChainVerdict) -> bool:
    """Whether two verdicts name different transactions. One without logs contradicts none."""
    if one.transaction is None or other.transaction is None:
        return False
    return (one.transaction, one.amount, one.pay_to) != (other.transaction, other.amount, other.pay_to)


def _examine_at(block: _Block, query: AuthorizationQuery) -> Questions:
    payer, nonce = _padded(query.payer), _checked(query.nonce, _WORD, "the nonce").lower()
    since = _block_at(block, min(query.since, query.valid_before) - _CLOCK_SLACK)
    until = _block_at(block, query.valid_before)
    call = {"to": USDC, "data": STATE_CALL + payer[2:] + nonce[2:]}
    # Time and state must be of one block: behind a load balancer, two requests may reach two nodes.
    state, logs = yield from _ask(
        ("eth_call", [call, {"blockHash": block.hash, "requireCanonical": True}]),
        _logs_call(payer, nonce, since, until),
    )
    events = _events(logs, payer, nonce, block)
    if not _boolean(state.value()):
        if events:
            raise _UndecidedError("the node says that the nonce is not used, and has a log of its use")
        if block.time < query.valid_before:
            raise _UndecidedError(
                f"its last finalized block, {block.number}, is of {_clock(block.time)} UTC, and the payment was valid "
                f"until {_clock(query.valid_before)} UTC: ask again in 20 minutes"
            )
        return ChainVerdict(outcome="unpaid", reason=f"not used at block {block.number}", block=block.number)
    if events == [] and until < block.number:  # canceled later, or blocks come faster than every two seconds
        (logs,) = yield from _ask(_logs_call(payer, nonce, since, block.number))
        events = _events(logs, payer, nonce, block)
    if not events:
        reason = f"used at block {block.number}, and the node has no log of it"
        return ChainVerdict(outcome="paid", reason=reason, block=block.number, amount=query.amount)
    event = events[0]
    if any((other.topics, other.transaction) != (event.topics, event.transaction) for other in events):
        raise _UndecidedError("the node has several logs of one nonce")
    if event.topics[0] == CANCELED:
        return ChainVerdict(
            outcome="canceled",
            reason=f"canceled in {event.transaction}",
            block=block.number,
            transaction=event.transaction,
        )
    (receipt,) = yield from _ask(("eth_getTransactionReceipt", [event.transaction]))
    amount, pay_to = _transfer(receipt, event, payer) or (query.amount, None)
    if amount > query.amount:
        raise _UndecidedError(f"the node has a transfer of ${usd(amount)}, more than was signed")
    return ChainVerdict(
        outcome="paid",
        reason=f"paid in {event.transaction}",
        block=block.number,
        amount=amount,
        pay_to=pay_to,
        transaction=event.transaction,
    )


def _block_at(block: _Block, time: float) -> int:
    """About the number of the block at a time, by the pace of Base; never after `block`."""
    behind = max(0, int(block.time - time)) // _BLOCK_SECONDS
    return max(0, block.number - behind)


def _logs_call(payer: str, nonce: str, since: int, until: int) -> tuple[str, list[Any]]:
    topics = [[USED, CANCELED], payer, nonce]
    return "eth_getLogs", [{"address": USDC, "topics": topics, "fromBlock": hex(since), "toBlock": hex(until)}]


def _ask(*calls: tuple[str, list[Any]]) -> Generator[bytes, bytes, list[_Answer]]:
    """Send a batch, and read its answers, in the order of the calls."""
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls, 1)
    ]
    content = yield json.dumps(batch, separators=(",", ":")).encode()
    return _answers([method for method, _ in calls], content)


def _answers(methods: Sequence[str], content: bytes) -> list[_Answer]:
    try:
        found = parse_json(content)
    except ValueError:
        raise _UndecidedError("its answer is not JSON") from None
    if isinstance(found, Mapping) and "error" in found:  # the batch as a whole was refused
        raise _UndecidedError(f"it failed with {_error(found['error'])}")
    if not isinstance(found, list) or len(found) != len(methods):
        raise _UndecidedError(f"its answer is not a list of {len(methods)}")
    answers: dict[int, _Answer] = {}
    for one in found:
        if not isinstance(one, Mapping) or one.get("jsonrpc") != "2.0" or ("result" in one) is ("error" in one):
            raise _UndecidedError("its answer is not JSON-RPC 2.0")
        number = one.get("id")
        if type(number) is not int or not 1 <= number <= len(methods) or number in answers:
            raise _UndecidedError("its answers do not have the ids of the requests")
        error = _error(one["error"]) if "error" in one else None
        answers[number] = _Answer(methods[number - 1], one.get("result"), error)
    return [answers[number] for number in range(1, len(methods) + 1)]


def _error(error: object) -> str:
    code = error.get("code") if isinstance(error, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else None
    if type(code) is not int or not isinstance(message, str):
        raise _UndecidedError("its answer has an error that is not one of JSON-RPC")
    return f"error {code}: {printable(message, 200)}"


def _checked(value: object, pattern: re.Pattern[str], what: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _UndecidedError(f"{what} cannot be read")
    return value


def _quantity(value: object, what: str) -> int:
    return int(_checked(value, _QUANTITY, what), 16)


def _padded(address: str) -> str:
    return "0x" + "0" * 24 + _checked(address, _ADDRESS, "the payer's address")[2:].lower()


def _boolean(value: object) -> bool:
    number = int(_checked(value, _WORD, "the state of the nonce"), 16)
    if number > 1:
        raise _UndecidedError("the state of the nonce cannot be read")
    return number == 1


def _block(value: object) -> _Block:
    if value is None:
        raise _UndecidedError("it has no finalized block")
    if not isinstance(value, Mapping):
        raise _UndecidedError("its finalized block cannot be read")
    return _Block(
        _quantity(value.get("number"), "the number of its finalized block"),
        _checked(value.get("hash"), _WORD, "the hash of its finalized block"),
        _quantity(value.get("timestamp"), "the time of its finalized block"),
    )


def _events(answer: _Answer, payer: str, nonce: str, block: _Block) -> list[_Log] | None:
    """The logs of the use of a nonce; None if the node has no logs."""
    if answer.error is not None:
        return None
    logs = _logs(answer.result)
    for log in logs:
        if log.topics[0] not in (USED, CANCELED) or log.topics[1:] != (payer, nonce) or log.block > block.number:
            raise _UndecidedError("its logs are not those that were asked for")
    return logs


def _logs(value: object) -> list[_Log]:
    """The logs of USDC among a list of logs."""
    if not isinstance(value, list):
        raise _UndecidedError("its logs cannot be read")
    found = []
    for one in value:
        if not isinstance(one, Mapping) or one.get("removed") not in (None, False):
            raise _UndecidedError("its logs cannot be read")
        if _checked(one.get("address"), _ADDRESS, "the contract of a log").lower() != USDC.lower():
            continue
        topics = one.get("topics")
        if not isinstance(topics, list) or not 1 <= len(topics) <= 4:
            raise _UndecidedError("the topics of a log cannot be read")
        data = one.get("data")
        found.append(
            _Log(
                tuple(_checked(topic, _WORD, "the topics of a log").lower() for topic in topics),
                data if isinstance(data, str) else "",
                _quantity(one.get("blockNumber"), "the block of a log"),
                _checked(one.get("transactionHash"), _WORD, "the transaction of a log").lower(),
                _quantity(one.get("logIndex"), "the index of a log"),
            )
        )
    return found


def _transfer(answer: _Answer, event: _Log, payer: str) -> tuple[int, str] | None:
    """Amount and payee by the receipt of the transaction that used the nonce; None if the node has none."""
    receipt = answer.result
    if answer.error is not None or receipt is None:
        return None
    if not isinstance(receipt, Mapping):
        raise _UndecidedError("the receipt of the transaction cannot be read")
    logs = _logs(receipt.get("logs"))
    transaction = _checked(receipt.get("transactionHash"), _WORD, "the transaction of the receipt").lower()
    if receipt.get("status") != "0x1" or transaction != event.transaction or event not in logs:
        raise _UndecidedError("the receipt is not that of the transaction that used the nonce")
    # A transaction may settle many payments. USDC logs the transfer right after the use of its nonce.
    after = sorted((log for log in logs if log.index > event.index), key=lambda log: log.index)
    if not after or after[0].topics[0] != TRANSFER or len(after[0].topics) != 3 or after[0].topics[1] != payer:
        raise _UndecidedError("the receipt has no transfer for the nonce")
    transfer = after[0]
    if int(transfer.topics[2], 16) >> 160:
        raise _UndecidedError("the payee of the transfer cannot be read")
    amount = int(_checked(transfer.data, _WORD, "the amount of the transfer"), 16)
    return amount, checksummed("0x" + transfer.topics[2][-40:])


def _clock(time: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(time)
