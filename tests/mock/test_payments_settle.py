"""Taking the money: once, together with everything that belongs to it, and only for what was delivered."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer, MockService
from tradesdk_mock.core.messages import Request
from tradesdk_mock.payments import eip3009, settlements

from ._market import HOST, JSON, PAID, PER_TOKEN, good_body, tokens
from ._paying import PAYER, STRANGER, Json, decode, encode, offer_of, pay, payment
from ._shop import BODY, PATH, PRICE, Shop
from ._support import _TLS, START

VERSIONS = pytest.mark.parametrize("version", [2, 1])
PRICES = {
    "token-signals": 50_000,
    "token-prices": 30_000,
    "signal-history": 50_000,
    "token-win-rate": 30_000,
    "token-avg-prices": 20_000,
    "top-performers": 60_000,
    "aggregate-metrics": 60_000,
}
BEGINNING = 1_000_000_000


@VERSIONS
@pytest.mark.parametrize("path", PRICES)
def test_each_costs_what_it_costs(path: str, version: int) -> None:
    shop = Shop()
    assert shop.buy(1, version, path, good_body(path)).data
    assert settlements.balance(shop.world, PAYER.address) == BEGINNING - PRICES[path]
    if path in PER_TOKEN:
        assert shop.buy(2, version, path, tokens("BRETT", "ETH", "SKI")).data
        assert settlements.balance(shop.world, PAYER.address) == BEGINNING - 4 * PRICES[path]


def test_what_is_bought_is_what_an_open_paywall_gives() -> None:
    for path in PAID:
        shop = Shop()
        bought = shop.buy(1, path=path, body=good_body(path)).data
        shop.world.set_gaps({"paywall": "open"})
        assert shop.post(path, good_body(path)).data == bought


@pytest.mark.rule("payment.settled-after")
@VERSIONS
@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (PATH, tokens("NOPE"), 404),
        ("token-signals", tokens("BRETT", "NOPE"), 404),
        (PATH, tokens("BRETT", "ETH", "AERO", "SKI"), 502),
    ],
)
def test_an_endpoint_that_fails_is_not_charged(version: int, path: str, body: Json, status: int) -> None:
    shop = Shop()
    if status == 502:
        shop.world.store.set_meta("price_failure", "true")
    content = shop.signed(1, version, path, body)
    answer = shop.present(content, path, body)
    assert (answer.status, bool(answer.error)) == (status, True)
    assert not [name for name in answer.headers if "payment" in name]
    assert shop.settled() == 0
    assert settlements.balance(shop.world, PAYER.address) == BEGINNING
    assert shop.world.store.all("SELECT verdict, status FROM presentations") == [("not charged", status)]
    # The authorization is as good as before.
    again = tokens("ETH") if path == PATH and status == 404 else None
    if again:
        assert shop.present(content, path, again).status == 200


@pytest.mark.rule("payment.settled-after")
def test_a_bad_request_is_not_charged() -> None:
    shop = Shop()
    content = shop.signed(1)
    assert shop.present(content, body=tokens("a", "A")).status == 400
    shop.world.set_gaps({"b_invalid": "402-first"})
    assert shop.present(content, body=tokens()).status == 400
    assert shop.settled() == 0
    assert shop.world.store.all("SELECT verdict, status FROM presentations") == [
        ("not carried out", 400),
        ("not charged", 400),
    ]
    assert shop.present(content).status == 200


@pytest.mark.rule("payment.settled-after")
def test_a_request_beyond_the_rate_limit_is_not_charged() -> None:
    shop = Shop(b_rate="60")
    content = shop.signed(1)
    for _ in range(59):
        shop.post(PATH, BODY)
    assert shop.present(content).status == 429
    assert shop.settled() == 0
    shop.world.set_gaps({"b_rate": "none"})
    assert shop.present(content).status == 200


def test_the_hash_of_a_transaction_follows_from_seed_payer_and_nonce() -> None:
    def bought(seed: int, *nonces: int, payer: Any = PAYER) -> list[str]:
        shop = Shop(seed=seed)
        return [decode(shop.buy(nonce, payer=payer).headers["payment-response"])["transaction"] for nonce in nonces]

    first = bought(7, 1, 2)
    assert all(re.fullmatch("0x[0-9a-f]{64}", each) for each in first)
    assert bought(7, 2, 1) == first[::-1]
    assert not set(bought(8, 1, 2)) & set(first)
    assert not set(bought(7, 1, 2, payer=STRANGER)) & set(first)


def test_the_same_calls_have_the_same_bytes() -> None:
    def played() -> list[tuple[int, dict[str, str], Any]]:
        shop = Shop()
        answers = [shop.buy(1), shop.buy(1), shop.buy(2, version=1), shop.buy(3, value="1")]
        return [(answer.status, answer.headers, answer.body) for answer in answers]

    assert played() == played()


@pytest.mark.rule("payment.whole")
def test_a_crash_in_the_middle_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it breaks: in the endpoint, while the money is taken, or right after that."""
    shop = Shop()
    content = shop.signed(1)

    def crash(*args: object, **options: object) -> Any:
        raise RuntimeError("broken")

    for module, name in (
        ("tradesdk_mock.state.world.World", "price_failure"),
        ("tradesdk_mock.payments.settlements", "set_balance"),
        ("tradesdk_mock.payments.settlements", "transaction"),
        ("tradesdk_mock.payments.settlements", "conclude"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"{module}.{name}", crash)
            answer = shop.present(content)
        assert answer.status == 500, name
        assert shop.settled() == 0
        assert settlements.balances(shop.world) == {}
        assert "payment-response" not in answer.headers
    rows = shop.world.store.all("SELECT verdict, status FROM presentations")
    assert rows == [("not carried out", 500)] * 4
    assert shop.present(content).status == 200
    assert settlements.balances(shop.world) == {PAYER.address: BEGINNING - PRICE}


def answers_of(worlds: list[MockService], content: Json, threads: int) -> list[int]:
    """The statuses of one payment, presented to these by many threads at the same time."""
    together = threading.Barrier(threads)
    value = encode(content).encode()

    def present(place: int) -> int:
        pipeline = worlds[place % len(worlds)].pipeline
        together.wait()
        request = Request(
            "POST",
            f"/v1/{PATH}",
            headers=[HOST, JSON, (b"payment-signature", value)],
            content=b'{"tokens": [{"identifier": "BRETT"}]}',
        )
        return pipeline.answer(request).status

    with ThreadPoolExecutor(threads) as pool:
        return sorted(pool.map(present, range(threads)))


def signed_for(mock: MockService, nonce: int) -> Json:
    with httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
        answer = http.post(f"/v1/{PATH}", json=BODY)
    return payment(offer_of(answer.headers), mock.clock.now(), nonce)


@pytest.mark.rule("payment.nonce")
@pytest.mark.parametrize("servers", [1, 2])
def test_of_sixteen_that_present_the_same_payment_one_is_charged(tmp_path: Path, servers: int) -> None:
    file = None if servers == 1 else tmp_path / "world.db"
    worlds = [MockService(db=file, clock=MockClock(START)) for _ in range(servers)]
    try:
        for nonce in range(1, 4):
            assert answers_of(worlds, signed_for(worlds[0], nonce), 16) == [200] + [402] * 15
        for mock in worlds:
            assert [each.presented for each in mock.payments.settlements()] == [16] * 3
            assert mock.payments.balance(PAYER.address) == BEGINNING - 3 * PRICE
            assert mock.payments.signatures() == 3
            mock.payments.assert_charged(times=3, amount=3 * PRICE)
    finally:
        for mock in worlds:
            mock.close()


@pytest.mark.rule("payment.balance")
def test_payers_together_do_not_spend_what_they_do_not_have(tmp_path: Path) -> None:
    worlds = [MockService(db=tmp_path / "world.db", clock=MockClock(START)) for _ in range(2)]
    try:
        worlds[0].payments.set_balance(PAYER.address, 3 * PRICE + 1)
        contents = [signed_for(worlds[0], nonce) for nonce in range(8)]

        def present(place: int) -> int:
            return answers_of([worlds[place % 2]], contents[place], 1)[0]

        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(present, range(8))) == [200] * 3 + [402] * 5
        assert worlds[1].payments.balance(PAYER.address) == 1
    finally:
        for mock in worlds:
            mock.close()


@pytest.mark.rule("payment.whole")
def test_the_books_are_kept_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "world.db"

    def ask(server: MockServer, **headers: str) -> httpx.Response:
        with httpx.Client(base_url=server.url, verify=_TLS, trust_env=False, headers=headers) as http:
            return http.post(f"/v1/{PATH}", json=BODY)

    with MockServer(db=file, clock=MockClock(START)) as server:
        header = pay(offer_of(ask(server).headers), START, 1)
        assert ask(server, **header).status_code == 200
        before = server.payments.settlements()
    with MockServer(db=file) as server:
        assert server.payments.settlements() == before
        assert server.payments.balance(PAYER.address) == BEGINNING - PRICE
        answer = ask(server, **header)
        assert offer_of(answer.headers)["error"] == "invalid_exact_evm_nonce_already_used"
        (kept,) = server.payments.settlements()
        assert (kept.presented, kept.delivered) == (2, 200)
        server.reset()
        assert not server.payments.settlements()
        assert not server.payments.presentations()
        assert server.payments.balance(PAYER.address) == BEGINNING


def test_a_server_loads_the_arithmetic_beside_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for a payment on a path where something is paid."""
    paid = (b"payment-signature", b"e30=")
    with MockService(clock=MockClock(START)) as mock:

        def loads(method: str, path: str, *headers: tuple[bytes, bytes]) -> bool:
            found = mock.pipeline.loads(mock.pipeline.open(Request(method, path, headers=[*headers])))
            assert found in (None, eip3009.load)
            return found is not None

        # As in a process that has seen no payment yet.
        monkeypatch.setattr(eip3009, "ready", lambda: False)
        assert loads("POST", "/v1/token-prices", paid)
        assert loads("POST", "/v1/token-prices", (b"x-payment", b""))
        assert not loads("POST", "/v1/token-prices")
        assert not loads("GET", "/v1/token-prices", paid)
        assert not loads("POST", "/v1/supported-tokens", paid)
        assert not loads("GET", "/v1/account", paid)
        monkeypatch.setattr(eip3009, "ready", lambda: True)
        assert not loads("POST", "/v1/token-prices", paid)
