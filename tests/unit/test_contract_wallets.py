"""Signatures of smart contract wallets as bytes, against eth-abi; and what nodes say of code and signatures."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk.payments import AccountCode
from tradesdk.payments.signing.contract_wallets import IS_VALID, MAGIC, call_data, inner_signature, is_wrapped
from tradesdk.payments.witness import NodeFailedError, examine_code, examine_signature

from .._rows import each_of

WALLET, FACTORY = "0x" + "12" * 20, "0x" + "34" * 20
YES = "0x1626ba7e" + "0" * 56


@settings(max_examples=30)
@given(st.binary(min_size=1, max_size=200), st.binary(max_size=200))
def test_a_wrapped_signature(inner: bytes, call: bytes) -> None:
    wrapped = encode(["address", "bytes", "bytes"], [FACTORY, call, inner]) + MAGIC
    assert is_wrapped(wrapped)
    assert inner_signature(wrapped) == inner
    for wrong in (encode(["address", "bytes", "bytes"], [FACTORY, call, b""]), wrapped[:64]):
        with pytest.raises(ValueError, match=r"too short|no factory"):
            inner_signature(wrong + MAGIC)


@given(st.binary(max_size=300))
def test_any_bytes(content: bytes) -> None:
    """They are a signature, or end as a wrapped one and are none: nothing else happens."""
    if not content.endswith(MAGIC):
        assert inner_signature(content) == content
    with contextlib.suppress(ValueError):
        assert inner_signature(content + MAGIC) in content


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_the_call_that_asks_a_wallet(digest: bytes, signature: bytes) -> None:
    selector = keccak(text="isValidSignature(bytes32,bytes)")[:4]
    assert "0x" + selector.hex() == IS_VALID
    assert call_data(digest, signature) == "0x" + (selector + encode(["bytes32", "bytes"], [digest, signature])).hex()


def answered(questions: Any, result: Any = None, error: Any = None) -> Any:
    batch = json.loads(next(questions))
    said = {"error": error} if error is not None else {"result": result}
    answers = [{"jsonrpc": "2.0", "id": 1, "result": "0x2105"}, {"jsonrpc": "2.0", "id": batch[1]["id"], **said}]
    with pytest.raises(StopIteration) as end:
        questions.send(json.dumps(answers).encode())
    return end.value.value


@each_of(
    ("code", "expected"),
    [
        ("0x", AccountCode(kind="none")),
        ("0x00", AccountCode(kind="contract")),
        ("0x6001", AccountCode(kind="contract")),
        ("0xEF0100" + "aB" * 20, AccountCode(kind="delegated", delegate="0x" + "ab" * 20)),
        ("0xef0100" + "ab" * 21, AccountCode(kind="contract")),
        ("0xef0101" + "ab" * 20, AccountCode(kind="contract")),
    ],
)
def test_code(code: str, expected: AccountCode) -> None:
    found = answered(examine_code(WALLET), code)
    assert (found.kind, str(found.delegate).lower()) == (expected.kind, str(expected.delegate).lower())


@each_of("code", [None, "", "0x1", "60", "0xgg", 5, [], True])
def test_what_is_no_code(code: Any) -> None:
    with pytest.raises(NodeFailedError, match="the code cannot be read"):
        answered(examine_code(WALLET), code)


@each_of(
    ("said", "is_valid"),
    [
        (YES, True),
        (YES.upper().replace("0X", "0x"), True),
        ("0xffffffff" + "0" * 56, False),
        ("0x" + "0" * 64, False),
        ("0x", False),
        (YES + "00", False),
        ("0x" + "0" * 56 + "1626ba7e", False),
    ],
)
def test_what_a_wallet_says(said: str, is_valid: bool) -> None:
    assert answered(examine_signature(WALLET, bytes(32), b"s"), said) is is_valid


@each_of(
    ("error", "refuses"),
    [
        ({"code": 3, "message": "execution reverted: no"}, True),
        ({"code": 3, "message": ""}, True),
        ({"code": -32000, "message": "execution reverted"}, True),
        ({"code": -32000, "message": "header not found"}, False),
        ({"code": -32005, "message": "too many requests"}, False),
    ],
)
def test_an_error_of_the_wallet_is_a_no_and_one_of_the_node_is_not(error: Any, refuses: bool) -> None:
    questions = examine_signature(WALLET, bytes(32), b"s")
    if refuses:
        assert answered(questions, error=error) is False
    else:
        with pytest.raises(NodeFailedError):
            answered(questions, error=error)


@each_of("said", [None, 1, True, "1626ba7e", ["0x"]])
def test_what_is_no_answer_of_a_wallet(said: Any) -> None:
    with pytest.raises(NodeFailedError, match="the answer of the wallet cannot be read"):
        answered(examine_signature(WALLET, bytes(32), b"s"), said)
