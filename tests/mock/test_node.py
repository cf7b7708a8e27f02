"""The node of the mock's chain: JSON-RPC by the settlements and the clock, and its faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from eth_utils.crypto import keccak

from tradesdk_mock import MockService

from ._buyer import Shop
from ._http import START
from ._paying import PAYER, STRANGER

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
GENESIS, FINALITY = 1_686_789_347, 1_200
BALANCE = "0x" + keccak(text="balanceOf(address)")[:4].hex()
STATE = "0x" + keccak(text="authorizationState(address,bytes32)")[:4].hex()


def word(address: str) -> str:
    return "0x" + address[2:].lower().rjust(64, "0")


class Node:
    def __init__(self, shop: Shop, path: str = "/rpc") -> None:
        self.shop = shop
        self.http = httpx.Client(transport=shop.transport(), base_url=shop.url)
        self.path = path

    def send(self, body: Any) -> Any:
        answer = self.http.post(self.path, json=body)
        assert answer.status_code == 200
        return answer.json()

    def ask(self, method: str, *params: Any) -> Any:
        found = self.send({"jsonrpc": "2.0", "id": 7, "method": method, "params": list(params)})
        assert (found.pop("jsonrpc"), found.pop("id")) == ("2.0", 7)
        return found.get("result", found.get("error"))

    def state(self, nonce: str, block: Any = "latest", payer: str = PAYER.address) -> Any:
        found = self.ask("eth_call", {"to": USDC, "data": STATE + word(payer)[2:] + nonce[2:]}, block)
        return int(found, 16) if isinstance(found, str) else found


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as found:
        yield found


@pytest.fixture
def node(shop: Shop) -> Node:
    return Node(shop)


def bought(shop: Shop) -> str:
    """The nonce of a payment that was settled, two seconds ago."""
    assert shop.buy(1).status == 200
    shop.clock.advance(2)
    return shop.payments.settlements()[-1].nonce


def test_blocks_come_with_the_clock_and_are_finalized_later(shop: Shop, node: Node) -> None:
    assert node.ask("eth_chainId") == hex(8453)
    latest, finalized = (node.ask("eth_getBlockByNumber", tag, False) for tag in ("latest", "finalized"))
    assert int(latest["number"], 16) == (START - GENESIS) // 2
    assert START - 2 < int(latest["timestamp"], 16) <= START
    assert int(latest["timestamp"], 16) - int(finalized["timestamp"], 16) == FINALITY
    assert node.ask("eth_getBlockByNumber", finalized["number"], False) == finalized
    shop.clock.advance(FINALITY)
    assert node.ask("eth_getBlockByNumber", "finalized", False) == latest
    assert node.ask("eth_getBlockByNumber", "0xfffffffffff", False) is None
    assert node.ask("eth_getBlockByNumber", "0x0", False)["parentHash"] == "0x" + "0" * 64


def test_a_nonce_is_used_from_the_block_of_its_settlement_on(shop: Shop, node: Node) -> None:
    before = node.ask("eth_getBlockByNumber", "latest", False)
    nonce = bought(shop)
    after = node.ask("eth_getBlockByNumber", "latest", False)
    assert [node.state(nonce, block) for block in ("latest", "finalized", before["number"])] == [1, 0, 0]
    for block, used in ((before, 0), (after, 1)):
        assert node.state(nonce, {"blockHash": block["hash"], "requireCanonical": True}) == used
        assert node.state(nonce, {"blockNumber": block["number"]}) == used
    assert node.state(nonce, payer=STRANGER.address) == 0
    assert node.state("0x" + "1" * 64) == 0
    shop.clock.advance(FINALITY)
    assert node.state(nonce, "finalized") == 1


def test_a_balance_is_that_of_now(shop: Shop, node: Node) -> None:
    def balance(address: str, block: Any = "latest") -> Any:
        found = node.ask("eth_call", {"to": USDC, "data": BALANCE + word(address)[2:]}, block)
        return int(found, 16) if isinstance(found, str) else found["message"]

    shop.payments.set_balance(PAYER.address, 10_000_000)
    before = balance(PAYER.address)
    bought(shop)
    settled = shop.payments.settlements()[-1]
    assert (before, balance(PAYER.address)) == (10_000_000, 10_000_000 - settled.amount)
    assert balance(PAYER.address) == shop.payments.balance(PAYER.address)
    assert balance(STRANGER.address) == shop.payments.balance(STRANGER.address)
    assert balance(PAYER.address, "finalized") == "the balance of an older block is not kept"
    assert balance(PAYER.address, {"blockHash": "0x" + "1" * 64}) == "header not found"


def test_json_rpc_is_answered_as_nodes_do(node: Node) -> None:
    one = {"jsonrpc": "2.0", "id": "a", "method": "eth_chainId"}
    assert node.send(one) == {"jsonrpc": "2.0", "id": "a", "result": "0x2105"}
    assert [each["id"] for each in node.send([one, {**one, "id": 2}])] == ["a", 2]
    for body, code in (
        ([], -32600),
        ([one] * 101, -32600),
        (5, -32600),
        ({"id": 1, "method": "eth_chainId"}, -32600),
        ({**one, "method": 5}, -32600),
        ({**one, "method": "eth_sign"}, -32601),
        ({**one, "params": {}}, -32602),
        ({**one, "method": "eth_getBlockByNumber", "params": ["newest", False]}, -32602),
        ({**one, "method": "eth_getBlockByNumber", "params": []}, -32602),
        ({**one, "method": "eth_getLogs", "params": [{}]}, -32601),
        ({**one, "method": "eth_call", "params": [{"to": USDC, "data": "0x"}]}, 3),
        ({**one, "method": "eth_call", "params": [{"data": "0x600160015500"}]}, -32602),
        ({**one, "method": "eth_call", "params": []}, -32602),
        ({**one, "method": "eth_call", "params": [{"to": USDC, "data": STATE + "0" * 128}, {"blockHash": 5}]}, -32602),
    ):
        assert node.send(body)["error"]["code"] == code, body
    assert node.state("0x" + "1" * 64, {"blockHash": "0x" + "1" * 64})["message"] == "header not found"
    assert node.ask("eth_call", {"to": PAYER.address, "data": STATE}, "latest") == "0x"
    for content in (b"{", b""):
        assert node.http.post("/rpc", content=content).json()["error"]["code"] == -32700
    assert node.http.get("/rpc").status_code == 405
    assert node.http.post("/rpc/a/b", json=one).status_code == 404


def test_a_node_is_logged_and_counts_in_no_rate_limit(shop: Shop, node: Node) -> None:
    node.path = "/rpc/b"
    node.ask("eth_chainId")
    entry = shop.journal()[-1]
    assert (entry.method, entry.path, entry.status, entry.tenant) == ("POST", "/rpc/b", 200, None)
    headers = node.http.post("/rpc", json={}).headers
    assert not [name for name in headers if "ratelimit" in name]


# Faults


def test_another_chain(shop: Shop, node: Node) -> None:
    shop.add_fault("chain_id", count=1)
    assert [node.ask("eth_chainId") for _ in range(2)] == ["0x1", "0x2105"]
    assert [entry.faults for entry in shop.journal()[-2:]] == [("chain_id",), ()]


def test_a_node_that_is_behind_does_not_know_the_newest_blocks(shop: Shop, node: Node) -> None:
    nonce = bought(shop)
    block = node.ask("eth_getBlockByNumber", "latest", False)
    shop.add_fault("node_lag", seconds=60, route="/rpc")
    at = {"blockHash": block["hash"], "requireCanonical": True}
    assert node.state(nonce, at)["message"] == "header not found"
    assert node.state(nonce) == 0
    assert Node(shop, "/rpc/b").state(nonce, at) == 1
    shop.clock.advance(60)
    assert node.state(nonce, at) == 1


def test_a_node_that_lies(shop: Shop, node: Node) -> None:
    nonce = bought(shop)
    lie = shop.add_fault("node_lie")
    assert node.state(nonce) == 0
    shop.remove_fault(lie.id)
    shop.add_fault("node_lie", used=True)
    assert node.state("0x" + "1" * 64) == 1


def test_errors_of_one_method_or_all(shop: Shop, node: Node) -> None:
    shop.add_fault("rpc_error", call="eth_call", count=1)
    batch: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": each, "params": []} for each in ("eth_chainId", "eth_call")
    ]
    good, bad = node.send(batch)
    assert (good["result"], bad["error"]["code"]) == ("0x2105", -32601)
    shop.add_fault("rpc_error", code=-32005, message="slow down")
    assert node.ask("eth_chainId") == {"code": -32005, "message": "slow down"}


def test_the_node_meets_faults_of_answers_and_nothing_else_meets_those_of_nodes(shop: Shop, node: Node) -> None:
    shop.add_fault("status", route="/rpc", status=503, count=1)
    shop.add_fault("chain_id")
    assert node.http.post("/rpc", json={}).status_code == 503
    assert shop.buy(1).status == 200
    assert [(rule.kind, rule.seen, rule.fired) for rule in shop.faults()] == [("status", 1, 1), ("chain_id", 1, 0)]
    assert {kind.name for kind in shop.fault_kinds() if kind.on == "node"} == {
        "chain_id",
        "node_lag",
        "node_lie",
        "rpc_error",
    }


def test_it_is_on_the_port_of_market_data_as_well() -> None:
    with MockService(gaps={"b_port": "another"}) as mock, httpx.Client(transport=mock.transport()) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}
        for url in (mock.url, mock.market_url):
            assert http.post(f"{url}/rpc", json=body).json()["result"] == "0x2105"
        assert mock.rpc_url == f"{mock.url}/rpc"
