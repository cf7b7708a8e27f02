"""What the answers of a node mean for payments: tables, and garbage at any place. No node, no socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Payment
from tradesdk._values.payment import USDC
from tradesdk.payments import ChainVerdict
from tradesdk.payments.witness import NodeFailedError, agreed, examine, undecided

from .._payments import payment
from .._rows import each_of
from .._texts import texts

HASH = "0x" + "b1" * 32
ENDED = 1_795_262_460
NUMBER = 54_000_000


def paid_for(number: int = 0xA1, **changes: Any) -> Payment:
    times = {"created": ENDED - 60.0, "valid_before": ENDED, "counts_until": ENDED}
    return payment(number, **{**times, **changes})


ONE = paid_for()
PAYER, NONCE = ONE.payer, ONE.nonce


def word(value: int | str) -> str:
    return f"0x{value:064x}" if isinstance(value, int) else "0x" + value[2:].lower().rjust(64, "0")


class Node:
    """Answers by method; what it was asked is in `batches`. An `Exception` as an answer becomes a JSON-RPC error."""

    def __init__(self, **answers: Any) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.answers: dict[str, Any] = {
            "eth_chainId": "0x2105",
            "eth_getBlockByNumber": {"number": hex(NUMBER), "hash": HASH, "timestamp": hex(ENDED), "size": "0x1"},
            "eth_call": word(0),
        } | answers

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


def all_asked(answer: Callable[[bytes], bytes], payments: Sequence[Payment]) -> list[ChainVerdict]:
    """What becomes of the answers; an error of `answer` is a failure of the node."""
    questions = examine(payments)
    content = next(questions)
    while True:
        try:
            try:
                said = answer(content)
            except NodeFailedError as failure:
                content = questions.throw(failure)
            else:
                content = questions.send(said)
        except StopIteration as end:
            verdicts: list[ChainVerdict] = end.value
            assert len(verdicts) == len(payments)
            for verdict in verdicts:
                assert verdict.reason.isprintable()
            return verdicts


def asked(answer: Callable[[bytes], bytes], one: Payment = ONE) -> ChainVerdict:
    (verdict,) = all_asked(answer, [one])
    return verdict


def test_an_unused_nonce_at_a_late_enough_block_is_unpaid() -> None:
    node = Node()
    verdict = asked(node.answer)
    assert verdict == ChainVerdict(outcome="unpaid", reason=f"not used at block {NUMBER}")
    assert verdict.paid is False
    assert [[one["method"] for one in batch] for batch in node.batches] == [
        ["eth_chainId", "eth_getBlockByNumber"],
        ["eth_call"],
    ]
    (_, finalized), (call,) = node.batches
    assert finalized["params"] == ["finalized", False]
    selector = keccak(text="authorizationState(address,bytes32)")[:4].hex()
    data = f"0x{selector}{word(PAYER)[2:]}{NONCE[2:]}"
    assert call["params"] == [{"to": USDC, "data": data}, {"blockHash": HASH, "requireCanonical": True}]


@each_of(("late", "outcome"), [(-1, "undecided"), (0, "unpaid"), (1, "unpaid")])
@each_of("end", ["valid_before", "counts_until"])
def test_a_block_before_the_end_of_every_validity_proves_nothing(late: int, outcome: str, end: str) -> None:
    found = {"number": hex(NUMBER), "hash": HASH, "timestamp": hex(ENDED + 60 + late)}
    later: dict[str, Any] = {end: ENDED + 60}
    verdict = asked(Node(eth_getBlockByNumber=found).answer, replace(ONE, **later))
    assert (verdict.outcome, f"block, {NUMBER}," in verdict.reason) == (outcome, outcome == "undecided")
    assert ("ask again in 20 minutes" in verdict.reason) is (outcome == "undecided")


@each_of("late", [-3600, 0])
def test_a_used_nonce_is_paid_at_any_time(late: int) -> None:
    found = {"number": hex(NUMBER), "hash": HASH, "timestamp": hex(ENDED + late)}
    node = Node(eth_call=word(1), eth_getBlockByNumber=found)
    verdict = asked(node.answer, replace(ONE, amount=30_000, counted=60_000))
    assert verdict == ChainVerdict(outcome="paid", reason=f"used at block {NUMBER}")
    assert verdict.paid is True


BLOCK = Node().answers["eth_getBlockByNumber"]
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
    ({"error": {"code": 1, "message": None}}, "not one of JSON-RPC"),
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
    assert verdict.outcome == "undecided"
    assert reason in verdict.reason


@each_of("changes", [{"payer": "nobody"}, {"nonce": "0x12"}, {"nonce": ""}, {"nonce": NONCE + "00"}])
def test_a_payment_that_cannot_be_asked_about_decides_nothing_and_disturbs_no_other(changes: dict[str, Any]) -> None:
    node = Node()
    good, bad = all_asked(node.answer, [ONE, replace(ONE, **changes)])
    assert (good.outcome, bad) == ("unpaid", undecided("its payer or nonce cannot be read"))
    assert [len(batch) for batch in node.batches] == [2, 1]


# Many payments

MANY = [paid_for(number, amount=number) for number in range(1, 31)]


def number_of(params: list[Any]) -> int:
    return int(params[0]["data"][-64:], 16)


def test_many_payments_are_asked_about_eight_at_a_time() -> None:
    node = Node(eth_call=lambda params: word(number_of(params) % 2))
    verdicts = all_asked(node.answer, MANY)
    assert [verdict.outcome for verdict in verdicts] == ["paid", "unpaid"] * 15
    assert [len(batch) for batch in node.batches] == [2, 8, 8, 8, 6]


LIMITED = ValueError("slow down")
FAILURES: dict[str, tuple[Callable[[int], object], list[int], int]] = {
    # how it fails, by the number of a payment; the calls of each request; how many payments are decided
    "never": (lambda number: None, [2, 8, 8, 8, 6], 30),
    "one payment": (lambda number: LIMITED if number == 3 else None, [2, 8, 8, 8, 6], 29),
    "two of one request": (lambda number: LIMITED if number in (3, 5) else None, [2, 8], 6),
    "two of two requests": (lambda number: LIMITED if number in (3, 12) else None, [2, 8, 8], 14),
    "every payment": (lambda number: LIMITED, [2, 8], 0),
    "unreadable": (lambda number: "0x", [2, 8], 0),
}


@each_of("name", FAILURES)
def test_a_node_that_failed_twice_is_asked_no_more(name: str) -> None:
    failing, sizes, decided = FAILURES[name]
    node = Node(eth_call=lambda params: failing(number_of(params)) or word(0))
    verdicts = all_asked(node.answer, MANY)
    assert [len(batch) for batch in node.batches] == sizes
    assert len([one for one in verdicts if one.paid is not None]) == decided
    for verdict in verdicts:
        assert verdict.reason  # of those that were not asked about, too


@each_of(
    ("failing", "sizes", "decided"),
    [({1}, [2], 0), ({2}, [2, 8, 8, 8, 6], 22), ({2, 3}, [2, 8, 8], 0), ({3, 5}, [2, 8, 8, 8, 6], 16)],
)
def test_requests_that_fail_count_once_each(failing: set[int], sizes: list[int], decided: int) -> None:
    node = Node()

    def answer(content: bytes) -> bytes:
        good = node.answer(content)
        if len(node.batches) in failing:
            raise NodeFailedError(f"status 503 to request {len(node.batches)}")
        return good

    verdicts = all_asked(answer, MANY)
    assert [len(batch) for batch in node.batches] == sizes
    assert [one.outcome for one in verdicts].count("unpaid") == decided
    said = [one.reason for one in verdicts if one.paid is None]
    assert set(said) <= {f"status 503 to request {number}" for number in failing}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | texts(max_size=5)
    | st.sampled_from(["0x", "0x1", word(1), HASH]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=9), inner, max_size=3),
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


@given(st.data(), st.integers(0, 1))
def test_garbage_anywhere_in_an_answer_never_makes_a_paid_nonce_unpaid(data: st.DataObject, turn: int) -> None:
    """One value of one answer is replaced. The verdict may change only where the state of the nonce itself does."""
    node = Node(eth_call=word(1))

    def answer(content: bytes) -> bytes:
        good = json.loads(node.answer(content))
        if len(node.batches) != turn + 1:
            return json.dumps(good).encode()
        way = data.draw(st.sampled_from(places(good)))
        return json.dumps(with_value(good, way, data.draw(JSON))).encode()

    assert {one.outcome for one in all_asked(answer, MANY[:3])} <= {"paid", "undecided"}


@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_answer_at_all_decides_nothing(content: bytes) -> None:
    assert asked(lambda _: content).outcome == "undecided"


# Several nodes

UNPAID = asked(Node().answer)
PAID = asked(Node(eth_call=word(1)).answer)
FAILED = undecided("no answer in time")


@each_of(
    ("said", "verdict", "outcome"),
    [
        (None, UNPAID, UNPAID),
        (None, PAID, PAID),
        (None, FAILED, replace(FAILED, reason="b: no answer in time")),
        (UNPAID, replace(UNPAID, reason="not used at block 1"), UNPAID),
        (PAID, replace(PAID, reason="used at block 1"), PAID),
        (UNPAID, FAILED, replace(FAILED, reason="b: no answer in time")),
        (UNPAID, PAID, undecided(f"the nodes disagree: {UNPAID.reason}; b: {PAID.reason}")),
        (PAID, UNPAID, undecided(f"the nodes disagree: {PAID.reason}; b: {UNPAID.reason}")),
    ],
)
def test_several_nodes_must_agree(said: ChainVerdict | None, verdict: ChainVerdict, outcome: ChainVerdict) -> None:
    assert agreed(said, "b", verdict) == outcome
