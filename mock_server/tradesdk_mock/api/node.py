"""A node of the chain on which payments settle: JSON-RPC at `/rpc`, and at `/rpc/NAME` for further nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

from ..core.errors import wrong_method
from ..core.messages import Response
from ..core.seeding import EVM_ADDRESS
from ..payments import accounts, settlements
from ..payments.chain import AUTHORIZATION_STATE, BALANCE_OF, ChainView
from ..payments.requirements import ASSET, PaymentFaults
from .context import Context

PATTERNS = ("/rpc", "/rpc/{node}")
METHODS = ("POST",)
_MOST = 100
_QUANTITY = re.compile(r"0x(0|[1-9a-fA-F][0-9a-fA-F]{0,15})")
_DATA = re.compile(r"0x(?:[0-9a-f]{2})*")
_WORD = re.compile(r"0x[0-9a-fA-F]{64}")
_STATE_CALL = re.compile(rf"{AUTHORIZATION_STATE}0{{24}}([0-9a-f]{{40}})([0-9a-f]{{64}})")
_BALANCE_CALL = re.compile(rf"{BALANCE_OF}0{{24}}([0-9a-f]{{40}})")

Record = dict[str, Any]


class RpcError(Exception):
    """An error of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def respond(context: Context) -> Response:
    """The response to a single request or a batch."""
    if context.request.method not in METHODS:
        raise wrong_method(context.request.method, METHODS)
    faults = context.matched.node if context.matched else PaymentFaults({})
    try:
        sent = from_json(context.request.content or b"", allow_inf_nan=False)
    except ValueError:
        return Response(200, _failed(None, RpcError(-32700, "parse error")))
    view = ChainView(context.world, context.now, faults)
    if not isinstance(sent, list):
        return Response(200, _executed(view, sent, faults))
    if not 1 <= len(sent) <= _MOST:
        return Response(200, _failed(None, RpcError(-32600, f"a batch has 1 to {_MOST} requests")))
    return Response(200, [_executed(view, one, faults) for one in sent])


def _executed(view: ChainView, sent: object, faults: PaymentFaults) -> Record:
    number = sent.get("id") if isinstance(sent, dict) else None
    try:
        if not isinstance(sent, dict) or sent.get("jsonrpc") != "2.0" or not isinstance(sent.get("method"), str):
            raise RpcError(-32600, "invalid request")
        name, params = sent["method"], sent.get("params", [])
        injected = faults.take("rpc_error", call=name) or faults.take("rpc_error", call="*")
        if injected is not None:
            raise RpcError(injected["code"], injected["message"])
        method = _METHODS.get(name)
        if method is None:
            raise RpcError(-32601, f"the method {name[:80]} does not exist")
        if not isinstance(params, list):
            raise RpcError(-32602, "params must be a list")
        return {"jsonrpc": "2.0", "id": number, "result": method(view, params)}
    except RpcError as error:
        return _failed(number, error)


def _failed(number: object, error: RpcError) -> Record:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": error.code, "message": str(error)}}


def _call(view: ChainView, params: list[Any]) -> str:
    call, block = _at(params, 0), _at(params, 1, "latest")
    if not isinstance(call, dict) or not isinstance(call.get("to"), str):
        raise RpcError(-32602, "a call needs `to`: the mock does not run code")
    to, data = call["to"].lower(), str(call.get("data") or call.get("input")).lower()
    if to != ASSET.lower() and accounts.code(view.world, to) == "0x":
        return "0x"  # the result for an address without code
    if to != ASSET.lower():
        result = accounts.is_valid_signature(view.world, to, data) if _DATA.fullmatch(data) else None
        if result is None:
            raise RpcError(3, "execution reverted")
        return result
    if call := _BALANCE_CALL.fullmatch(data):
        if _existing(view, block) != view.head:
            raise RpcError(-32000, "the balance of an older block is not kept")
        return f"0x{settlements.balance(view.world, f'0x{call[1]}'):064x}"
    found = _STATE_CALL.fullmatch(data)
    if found is None:
        raise RpcError(3, "execution reverted")
    return f"0x{view.is_used(f'0x{found[1]}', f'0x{found[2]}', _existing(view, block)):064x}"


def _code(view: ChainView, params: list[Any]) -> str:
    address = _at(params, 0)
    if not isinstance(address, str) or not EVM_ADDRESS.fullmatch(address):
        raise RpcError(-32602, "the address cannot be read")
    _existing(view, _at(params, 1, "latest"))
    return accounts.code(view.world, address.lower())


_METHODS: dict[str, Callable[[ChainView, list[Any]], Any]] = {
    "eth_chainId": lambda view, _: hex(view.chain_id),
    "eth_getBlockByNumber": lambda view, params: view.block(_number(view, _at(params, 0))),
    "eth_call": _call,
    "eth_getCode": _code,
}


def _at(params: list[Any], index: int, default: object = None) -> Any:
    return params[index] if index < len(params) else default


def _number(view: ChainView, block: object) -> int:
    """The number of a block by its tag or number."""
    tags = {"latest": view.head, "safe": view.finalized, "finalized": view.finalized, "earliest": 0}
    if isinstance(block, str) and block in tags:
        return tags[block]
    if not isinstance(block, str) or not _QUANTITY.fullmatch(block):
        raise RpcError(-32602, "invalid block tag")
    return int(block, 16)


def _existing(view: ChainView, block: object) -> int:
    """The number of a block by tag, number or hash (EIP-1898)."""
    number: int | None
    if isinstance(block, dict):
        block_hash = block.get("blockHash")
        if block_hash is None:
            number = _number(view, block.get("blockNumber"))
        elif isinstance(block_hash, str) and _WORD.fullmatch(block_hash):
            number = view.number_of(block_hash)
        else:
            raise RpcError(-32602, "the block hash cannot be read")
    else:
        number = _number(view, block)
    if number is None or view.block(number) is None:
        raise RpcError(-32000, "header not found")
    return number
