"""What the answers of a node mean for a payment: tables, and garbage at any place. No node, no socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import ChainVerdict
from tradesdk.payments import witness
from tradesdk.payments.guards import USDC
from tradesdk.payments.witness import AuthorizationQuery, agreed, examine, undecided

from .._rows import each_of

PAYER = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
NONCE = "0x" + "0" * 62 + "a1"
TX = "0x" + "7d" * 32
HASH = "0x" + "b1" * 32
SIGNED = 1_795_262_400
QUERY = AuthorizationQuery(payer=PAYER, nonce=NONCE, amount=30_000, valid_before=SIGNED + 60, since=SIGNED)
NUMBER = 54_000_000
TAKEN_AT = NUMBER - 500


def word(value: int | str) -> str:
    return f"0x{value:064x}" if isinstance(value, int) else "0x" + value[2:].lower().rjust(64, "0")


def log(index: int, topics: Sequence[str], data: str = "0x", **other: Any) -> dict[str, Any]:
    return {
        "address": USDC.lower(),
        "topics": list(topics),
        "data": data,
        "blockNumber": hex(TAKEN_AT),
        "transactionHash": TX,
        "logIndex": hex(index),
        "removed": False,
    } | other


def used(index: int = 4, topic: str = witness.USED, **other: Any) -> dict[str, Any]:
    return log(index, [topic, word(PAYER), NONCE], **other)


def transfer(index: int = 5, amount: int = 30_000, **other: str) -> dict[str, Any]:
    return log(index, [witness.TRANSFER, word(PAYER), word(PAYEE)], word(amount)) | other


class Node:
    """Answers by method; what it was asked is in `batches`. An `Exception` as an answer becomes a JSON-RPC error."""

    def __init__(self, **answers: Any) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.answers: dict[str, Any] = {
            "eth_chainId": "0x2105",
            "eth_getBlockByNumber": {"number": hex(NUMBER), "hash": HASH, "timestamp": hex(SIGNED + 60), "size": "0x1"},
            "eth_call": word(0),
            "eth_getLogs": [],
            "eth_getTransactionReceipt": None,
        } | answers

    def paid(self, **answers: Any) -> Node:
        receipt = {"status": "0x1", "transactionHash": TX, "logs": [used(), transfer()]}
        self.answers |= {"eth_call": word(1), "eth_getLogs": [used()], "eth_getTransactionReceipt": receipt} | answers
        return self

    def answer(self, content: bytes) -> bytes:
        batch = json.loads(content)
        self.batches.append(batch)
        found = []
        for one in reversed(batch):  # in any order
            value = self.answers[one["method"]]
            value = value(one["params"]) if callable(value) else value
            error = {"error": {"code": -32601, "message": str(value)}}
            said = error if isinstance(value, Exception) else {"result": value}
            found.append({"jsonrpc": "2.0", "id": one["id"], **said})
        return json.dumps(found).encode()


def asked(answer: Callable[[bytes], bytes], query: AuthorizationQuery = QUERY) -> ChainVerdict:
    questions = examine(query)
    content = next(questions)
    while True:
        try:
            content = questions.send(answer(content))
        except StopIteration as end:
            verdict: ChainVerdict = end.value
            assert verdict.reason.isprintable()
            assert (verdict.amount is not None) is (verdict.outcome == "paid")
            return verdict


def test_selectors_and_topics_are_those_of_the_contract() -> None:
    assert bytes.fromhex(witness.STATE_CALL[2:]) == keccak(text="authorizationState(address,bytes32)")[:4]
    for topic, event in (
        (witness.USED, "AuthorizationUsed(address,bytes32)"),
        (witness.CANCELED, "AuthorizationCanceled(address,bytes32)"),
        (witness.TRANSFER, "Transfer(address,address,uint256)"),
    ):
        assert bytes.fromhex(topic[2:]) == keccak(text=event)


def test_an_unused_nonce_at_a_late_enough_block_is_unpaid() -> None:
    node = Node()
    verdict = asked(node.answer)
    assert verdict == ChainVerdict(outcome="unpaid", reason=f"not used at block {NUMBER}", block=NUMBER)
    assert (verdict.paid, verdict.amount_usd) == (False, None)
    assert [[one["method"] for one in batch] for batch in node.batches] == [
        ["eth_chainId", "eth_getBlockByNumber"],
        ["eth_call", "eth_getLogs"],
    ]
    (_, finalized), (call, logs) = node.batches
    assert finalized["params"] == ["finalized", False]
    data = witness.STATE_CALL + word(PAYER)[2:] + NONCE[2:]
    assert call["params"] == [{"to": USDC, "data": data}, {"blockHash": HASH, "requireCanonical": True}]
    (asked_for,) = logs["params"]
    assert asked_for["topics"] == [[witness.USED, witness.CANCELED], word(PAYER), NONCE]
    assert (asked_for["address"], asked_for["toBlock"]) == (USDC, hex(NUMBER))
    assert int(asked_for["fromBlock"], 16) == NUMBER - (60 + 1_000) // 2


@each_of(("late", "outcome"), [(-1, "undecided"), (0, "unpaid"), (1, "unpaid")])
def test_a_block_before_the_end_of_the_validity_proves_nothing(late: int, outcome: str) -> None:
    found = {"number": hex(NUMBER), "hash": HASH, "timestamp": hex(QUERY.valid_before + late)}
    verdict = asked(Node(eth_getBlockByNumber=found).answer)
    assert (verdict.outcome, verdict.block) == (outcome, NUMBER)


def test_a_transfer_is_paid_with_its_amount_payee_and_transaction() -> None:
    node = Node().paid()
    verdict = asked(node.answer)
    assert verdict == ChainVerdict(
        outcome="paid", reason=f"paid in {TX}", block=NUMBER, amount=30_000, pay_to=PAYEE, transaction=TX
    )
    assert verdict.paid is True
    assert str(verdict.amount_usd) == "0.030000"
    assert [len(batch) for batch in node.batches] == [2, 2, 1]


def test_a_nonce_is_used_before_its_validity_has_ended_too() -> None:
    early = {"number": hex(NUMBER), "hash": HASH, "timestamp": hex(SIGNED + 2)}
    assert asked(Node().paid(eth_getBlockByNumber=early).answer).outcome == "paid"


def test_the_transfer_is_that_of_the_nonce_among_many() -> None:
    other = [log(1, [witness.USED, word(PAYER), word(7)]), transfer(2, 90_000), log(3, ["0x" + "9" * 64])]
    mine = [used(), transfer(5, 20_000), transfer(6, 1), {**transfer(9), "address": PAYEE}]
    receipt = {"status": "0x1", "transactionHash": TX, "logs": [*other, *mine]}
    assert asked(Node().paid(eth_getTransactionReceipt=receipt).answer).amount == 20_000


def test_a_canceled_nonce_was_not_paid() -> None:
    node = Node(eth_call=word(1), eth_getLogs=[used(topic=witness.CANCELED)])
    verdict = asked(node.answer)
    assert (verdict.outcome, verdict.paid, verdict.transaction) == ("canceled", False, TX)
    assert verdict.reason == f"canceled in {TX}"


def test_logs_after_the_validity_are_asked_for_when_there_are_none_in_it() -> None:
    late = {"number": hex(NUMBER), "hash": HASH, "timestamp": hex(SIGNED + 7_200)}

    def logs(params: list[Any]) -> list[Any]:
        return [used(topic=witness.CANCELED)] if int(params[0]["toBlock"], 16) == NUMBER else []

    node = Node(eth_getBlockByNumber=late, eth_call=word(1), eth_getLogs=logs)
    assert asked(node.answer).outcome == "canceled"
    first, second = (one["params"][0] for batch in node.batches for one in batch if one["method"] == "eth_getLogs")
    assert int(first["toBlock"], 16) == NUMBER - (7_200 - 60) // 2
    assert first["fromBlock"] == second["fromBlock"]


@each_of("logs", [[], ValueError("logs are disabled")])
def test_a_used_nonce_without_logs_is_paid_at_the_largest_amount(logs: Any) -> None:
    verdict = asked(Node(eth_call=word(1), eth_getLogs=logs).answer)
    assert (verdict.outcome, verdict.amount, verdict.pay_to, verdict.transaction) == ("paid", 30_000, None, None)
    assert verdict.reason == f"used at block {NUMBER}, and the node has no log of it"


@each_of("receipt", [None, ValueError("pruned")])
def test_without_a_receipt_the_transaction_is_known_and_the_amount_the_largest(receipt: Any) -> None:
    verdict = asked(Node().paid(eth_getTransactionReceipt=receipt).answer)
    assert (verdict.outcome, verdict.amount, verdict.pay_to, verdict.transaction) == ("paid", 30_000, None, TX)


BLOCK = Node().answers["eth_getBlockByNumber"]
RECEIPT = {"status": "0x1", "transactionHash": TX, "logs": [used(), transfer()]}
UNDECIDED: dict[str, tuple[Node, str]] = {
    "another chain": (Node(eth_chainId="0x1"), "chain 1, not of Base"),
    "no chain id": (Node(eth_chainId=8453), "chain id cannot be read"),
    "a padded chain id": (Node(eth_chainId="0x02105"), "chain id cannot be read"),
    "no finalized block": (Node(eth_getBlockByNumber=None), "no finalized block"),
    "no support of finalized": (
        Node(eth_getBlockByNumber=ValueError("invalid block tag")),
        "-32601: invalid block tag",
    ),
    "a block that is a list": (Node(eth_getBlockByNumber=[]), "block cannot be read"),
    "a block without a number": (Node(eth_getBlockByNumber=BLOCK | {"number": None}), "number of its finalized"),
    "a block without a hash": (Node(eth_getBlockByNumber=BLOCK | {"hash": "0x12"}), "hash of its finalized"),
    "a block without a time": (Node(eth_getBlockByNumber=BLOCK | {"timestamp": 1.5}), "time of its finalized"),
    "an unknown block": (Node(eth_call=ValueError("header not found")), "eth_call failed with error -32601: header"),
    "no contract": (Node(eth_call="0x"), "state of the nonce cannot be read"),
    "no boolean": (Node(eth_call=word(2)), "state of the nonce cannot be read"),
    "a real boolean": (Node(eth_call=True), "state of the nonce cannot be read"),
    "unused with a log": (Node(eth_getLogs=[used()]), "has a log of its use"),
    "logs that are none": (Node().paid(eth_getLogs={}), "logs cannot be read"),
    "null for logs": (Node().paid(eth_getLogs=None), "logs cannot be read"),
    "a log of another payer": (
        Node().paid(eth_getLogs=[log(4, [witness.USED, word(PAYEE), NONCE])]),
        "not those that were asked for",
    ),
    "a log of another nonce": (
        Node().paid(eth_getLogs=[log(4, [witness.USED, word(PAYER), word(9)])]),
        "not those that were asked for",
    ),
    "a log of another event": (Node().paid(eth_getLogs=[transfer()]), "not those that were asked for"),
    "a log after the block": (
        Node().paid(eth_getLogs=[used(blockNumber=hex(NUMBER + 1))]),
        "not those that were asked for",
    ),
    "a log without topics": (Node().paid(eth_getLogs=[log(4, [])]), "topics"),
    "a removed log": (Node().paid(eth_getLogs=[used(removed=True)]), "logs cannot be read"),
    "two logs": (
        Node().paid(eth_getLogs=[used(), used(transactionHash="0x" + "8" * 64)]),
        "several logs of one nonce",
    ),
    "a receipt that is text": (Node().paid(eth_getTransactionReceipt="ok"), "receipt of the transaction cannot be"),
    "a failed transaction": (Node().paid(eth_getTransactionReceipt=RECEIPT | {"status": "0x0"}), "not that of"),
    "another receipt": (
        Node().paid(eth_getTransactionReceipt=RECEIPT | {"transactionHash": HASH}),
        "not that of",
    ),
    "a receipt without the nonce": (
        Node().paid(eth_getTransactionReceipt=RECEIPT | {"logs": [transfer()]}),
        "not that of",
    ),
    "no transfer": (Node().paid(eth_getTransactionReceipt=RECEIPT | {"logs": [used()]}), "no transfer"),
    "a transfer of another": (
        Node().paid(
            eth_getTransactionReceipt=RECEIPT
            | {"logs": [used(), log(5, [witness.TRANSFER, word(PAYEE), word(PAYER)], word(1))]}
        ),
        "no transfer",
    ),
    "a transfer of more than was signed": (
        Node().paid(eth_getTransactionReceipt=RECEIPT | {"logs": [used(), transfer(5, 30_001)]}),
        "more than was signed",
    ),
    "a transfer without an amount": (
        Node().paid(eth_getTransactionReceipt=RECEIPT | {"logs": [used(), transfer(data="0x")]}),
        "amount of the transfer",
    ),
    "a payee that is not an address": (
        Node().paid(
            eth_getTransactionReceipt=RECEIPT
            | {"logs": [used(), log(5, [witness.TRANSFER, word(PAYER), "0x" + "1" * 64], word(1))]}
        ),
        "payee of the transfer",
    ),
}


@each_of("name", UNDECIDED)
def test_answers_that_decide_nothing(name: str) -> None:
    node, reason = UNDECIDED[name]
    verdict = asked(node.answer)
    assert (verdict.outcome, verdict.paid) == ("undecided", None)
    assert reason in verdict.reason


GOOD = {"jsonrpc": "2.0", "id": 1, "result": "0x2105"}
ENVELOPES: list[tuple[Any, str]] = [
    (b"", "not JSON"),
    (b"<html><body>502</body></html>", "not JSON"),
    (b"[" * 5_000, "not JSON"),
    (b'[{"jsonrpc":"2.0","id":1,"result":NaN}]', "not JSON"),
    (5, "not a list of 2"),
    (None, "not a list of 2"),
    ({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no\nbatches"}}, r"-32600: no\nbatches"),
    ({"error": "no"}, "not one of JSON-RPC"),
    ({"error": {"code": "1", "message": "no"}}, "not one of JSON-RPC"),
    ([], "not a list of 2"),
    ([GOOD], "not a list of 2"),
    ([GOOD, GOOD], "ids"),
    ([GOOD, {**GOOD, "id": 3}], "ids"),
    ([GOOD, {**GOOD, "id": "2"}], "ids"),
    ([GOOD, {**GOOD, "id": 2.0}], "ids"),
    ([{**GOOD, "id": True}, {**GOOD, "id": 2}], "ids"),
    ([GOOD, 5], "not JSON-RPC 2.0"),
    ([GOOD, {"id": 2, "result": None}], "not JSON-RPC 2.0"),
    ([GOOD, {"jsonrpc": "2.0", "id": 2}], "not JSON-RPC 2.0"),
    ([GOOD, {**GOOD, "id": 2, "error": None}], "not JSON-RPC 2.0"),
    ([GOOD, {"jsonrpc": "2.0", "id": 2, "error": None}], "not one of JSON-RPC"),
]


@each_of(("body", "reason"), ENVELOPES)
def test_envelopes_are_read_strictly(body: Any, reason: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    verdict = asked(lambda _: content)
    assert (verdict.outcome, verdict.block) == ("undecided", None)
    assert reason in verdict.reason


@each_of("changes", [{"payer": "nobody"}, {"nonce": "0x12"}, {"nonce": ""}])
def test_a_query_that_cannot_be_asked_decides_nothing(changes: dict[str, Any]) -> None:
    assert asked(Node().answer, replace(QUERY, **changes)).outcome == "undecided"


@each_of("since", [0, -5.5, SIGNED + 10**9])
def test_whatever_the_local_clock_said_when_it_was_signed(since: float) -> None:
    node = Node()
    assert asked(node.answer, replace(QUERY, since=since)).outcome == "unpaid"
    (asked_for,) = node.batches[1][1]["params"]
    assert 0 <= int(asked_for["fromBlock"], 16) <= int(asked_for["toBlock"], 16) <= NUMBER


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.text(max_size=5)
    | st.sampled_from(["0x", "0x1", word(1), TX]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for name, each in inner for place in places(each, (*way, name)))]


def with_value(value: Any, way: tuple[Any, ...], other: Any) -> Any:
    if not way:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[way[0]] = with_value(value[way[0]], way[1:], other)
    return copy


@given(st.data(), st.integers(0, 2))
def test_garbage_anywhere_in_an_answer_never_makes_a_paid_nonce_unpaid(data: st.DataObject, turn: int) -> None:
    """One value of one answer is replaced. The verdict may change only where the state of the nonce itself does."""
    node = Node().paid()

    def answer(content: bytes) -> bytes:
        good = json.loads(node.answer(content))
        if len(node.batches) != turn + 1:
            return json.dumps(good).encode()
        way = data.draw(st.sampled_from(places(good)))
        return json.dumps(with_value(good, way, data.draw(JSON))).encode()

    assert asked(answer).outcome in ("paid", "undecided")


@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_answer_at_all_decides_nothing(content: bytes) -> None:
    assert asked(lambda _: content).outcome == "undecided"


UNPAID = asked(Node().answer)
PAID = asked(Node().paid().answer)
NO_LOGS = asked(Node(eth_call=word(1)).answer)
GONE = asked(Node(eth_call=word(1), eth_getLogs=[used(topic=witness.CANCELED)]).answer)
FAILED = undecided("no answer in time")


@each_of(
    ("verdicts", "outcome"),
    [
        ([UNPAID], UNPAID),
        ([PAID], PAID),
        ([FAILED], replace(FAILED, reason="a: no answer in time")),
        ([UNPAID, UNPAID, UNPAID], UNPAID),
        ([PAID, PAID], PAID),
        ([NO_LOGS, PAID], PAID),
        ([PAID, NO_LOGS], PAID),
        ([NO_LOGS, NO_LOGS], NO_LOGS),
        ([GONE, UNPAID], GONE),
        ([UNPAID, GONE], GONE),
        ([UNPAID, FAILED], replace(FAILED, reason="b: no answer in time")),
        ([UNPAID, PAID], None),
        ([NO_LOGS, UNPAID], None),
        ([GONE, PAID], None),
        ([UNPAID, UNPAID, PAID], None),
        ([PAID, replace(PAID, transaction=HASH)], None),
        ([PAID, replace(PAID, amount=1)], None),
        ([NO_LOGS, PAID, replace(PAID, pay_to=PAYER)], None),
    ],
)
def test_several_nodes_must_agree(verdicts: list[ChainVerdict], outcome: ChainVerdict | None) -> None:
    found = agreed(list(zip("abc", verdicts, strict=False)))
    if outcome is not None:
        assert found == outcome
    else:
        assert found.outcome == "undecided"
        assert found.reason.startswith("the nodes disagree: ")
