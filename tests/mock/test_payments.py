"""What the mock says to a payment, and when it takes the money. What it then reports: test_payments_books."""

from __future__ import annotations

import base64
import copy
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .._rows import each_of
from ._buyer import BODY, PATH, PRICE, Shop, good_body, tokens
from ._http import START
from ._paying import JSON, PAID, PAYER, STRANGER, Json, encode, nonce_of, payment, sign

OTHER = "0x" + "66" * 20
BEGINNING = 1_000_000_000
MISSING = object()

BARE = "Payment is required: send PAYMENT-SIGNATURE with the request."
NO_MATCH = "No matching payment requirements"
VERSION = "invalid_x402_version"
MALFORMED = "invalid_payload"
CODE = "invalid_exact_evm_payload_"
RECEIVER, AMOUNT = CODE + "recipient_mismatch", CODE + "authorization_value_mismatch"
BEFORE, AFTER = CODE + "authorization_valid_before", CODE + "authorization_valid_after"
SIGNATURE = CODE + "signature"
USED = "invalid_exact_evm_nonce_already_used"


@pytest.fixture(scope="module")
def refusing() -> Shop:
    """No payment that is refused changes it, but for its submissions."""
    return Shop()


@pytest.fixture(scope="module")
def good(refusing: Shop) -> Json:
    """A payment that would be taken."""
    return refusing.signed(2)


def changed(content: Json, at: str, value: object) -> Json:
    """A copy with one value replaced, added or taken out."""
    found = copy.deepcopy(content)
    *way, last = at.split(".")
    inner: Any = found
    for name in way:
        inner = inner[name]
    if value is MISSING:
        del inner[last]
    else:
        inner[last] = value
    return found


A = "payload.authorization."
SIX = ("from", "to", "value", "validAfter", "validBefore", "nonce")
# What stands where in a payment, in the order in which it is looked at, and the reason of the refusal.
WRONG: list[tuple[str, list[Any], str]] = [
    ("x402Version", [0, 1, 3, 2.0, "2", None, True, [2], MISSING], VERSION),
    ("accepted", [None, [], "exact", {}, 5, [{}], MISSING], NO_MATCH),
    ("accepted.scheme", ["EXACT", MISSING], NO_MATCH),
    ("accepted.network", ["base", MISSING], NO_MATCH),
    ("accepted.amount", [30000, "030000", "29999", MISSING], NO_MATCH),
    ("accepted.asset", ["0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", MISSING], NO_MATCH),
    ("accepted.payTo", [OTHER, MISSING], NO_MATCH),
    ("accepted.maxTimeoutSeconds", [60.0, "60", 61, True, MISSING], NO_MATCH),
    ("accepted.extra", [{"name": "USD Coin"}, None, [], MISSING], NO_MATCH),
    ("accepted.extra.version", [2], NO_MATCH),
    ("accepted.description", ["more"], NO_MATCH),
    ("payload", [None, [], {}, "text"], MALFORMED),
    ("payload.authorization", [MISSING, []], MALFORMED),
    ("payload.signature", [MISSING, None, 5, []], MALFORMED),
    *[(A + name, [MISSING], MALFORMED) for name in SIX],
    (A + "value", [30000, "", "+30000", "-1", "3e4", "30000.0", " 30000", "0x7530", "٣", "9" * 79], MALFORMED),
    *[(A + name, [str(2**256)], MALFORMED) for name in SIX[2:5]],
    *[(A + name, [0, None, "-1", "1.5", "now"], MALFORMED) for name in SIX[3:5]],
    *[(A + name, [None, "", "0x12", PAYER.address[2:]], MALFORMED) for name in SIX[:2]],
    (A + "nonce", [1, "", "0x1", *["0x" + each for each in ("0" * 63, "0" * 65, "g" * 64)], "0" * 64], MALFORMED),
    (A + "to", [OTHER], RECEIVER),
    (A + "value", ["29999", "30001", "0", "60000", str(2**256 - 1)], AMOUNT),
    (A + "validBefore", ["0", str(START), str(START + 5)], BEFORE),
    (A + "validAfter", [str(START + 1), str(START + 50)], AFTER),
    # From here on it is the signature that doesn't fit what was changed after signing.
    (A + "validBefore", [str(START + 59)], SIGNATURE),
    (A + "validAfter", ["1"], SIGNATURE),
    (A + "nonce", [nonce_of(3)], SIGNATURE),
    (A + "from", [STRANGER.address], SIGNATURE),
    (
        "payload.signature",
        ["", "0x", "0x12", "nonsense", *["0x" + n * 130 for n in "01f"], "0x" + "1" * 129],
        SIGNATURE,
    ),
]


@pytest.mark.rule(
    "payment.accepted payment.authorization payment.receiver payment.amount payment.valid-before payment.valid-after",
    "payment.signed payment.refused",
)
@each_of(("at", "values", "reason"), WRONG)
def test_what_is_wrong_with_a_payment(refusing: Shop, good: Json, at: str, values: list[Any], reason: str) -> None:
    for value in values:
        content = encode(changed(good, at, value)).encode()
        assert refusing.raw(content).reason == reason, value
        assert refusing.verdicts()[-1] == (reason, 402)
    assert refusing.settled() == 0


@pytest.mark.rule("payment.signed")
def test_a_signature_for_another_token(refusing: Shop, good: Json) -> None:
    domains: list[Json] = [{"extra": {"name": "USDC", "version": "2"}}, {"network": "eip155:84532"}, {"asset": OTHER}]
    for domain in domains:
        signature = sign(good["accepted"] | domain, good["payload"]["authorization"])
        assert refusing.submit(changed(good, "payload.signature", signature)).reason == SIGNATURE


@pytest.mark.rule("payment.unreadable")
@each_of(
    "value",
    [
        b"",
        b"not base64",
        b"e30",  # no padding
        b"e3 0=",
        base64.urlsafe_b64encode(b'{"a":"\xc3\xbf\xc3\xbf\xc3\xbf?>"}'),
        *map(base64.b64encode, (b"", b"{", b"[]", b"null", b'"text"', b'{"x402Version": NaN}', b"\xff\xfe")),
        base64.b64encode(b"[" * 20_000),
        base64.b64encode(b'{"a":' * 4_000),
        base64.b64encode(b'{"x402Version":2,"a":"' + b"x" * 40_000 + b'"}'),
        None,
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_can_not_be_read_is_as_if_it_were_not_there(refusing: Shop, good: Json, value: bytes | None) -> None:
    """None: the header stands there twice."""
    more = []
    if value is None:
        value = encode(good).encode()
        more = [(b"payment-signature", value)]
    assert refusing.raw(value, more=more).reason == BARE
    last = refusing.payments.submissions()[-1]
    assert (last.verdict, last.status, last.payer, last.nonce) == ("unreadable", 402, None, None)


Change = Callable[[Json], Json]


def in_another_case(case: Callable[[str], str]) -> Change:
    def change(content: Json) -> Json:
        fields = content["payload"]["authorization"]
        fields |= {name: "0x" + case(fields[name][2:]) for name in ("from", "to", "nonce")}
        content["payload"]["signature"] = "0x" + case(content["payload"]["signature"][2:])
        return content

    return change


def backwards(content: Json) -> Json:
    return dict(reversed(content.items())) | {"accepted": dict(reversed(content["accepted"].items()))}


@pytest.mark.rule("payment.accepted")
def test_what_does_not_matter() -> None:
    shop = Shop()
    harmless: list[Change] = [
        backwards,
        lambda content: changed(content, "resource", MISSING),
        lambda content: changed(content, A + "note", [1, 2]),
        lambda content: changed(content, "accepted.extra.more", None),
        lambda content: changed(content, "accepted.extra.verifyingContract", {"deep": [1]}),
        lambda content: content | {"note": "x" * 20_000},
        lambda content: content | {"extensions": {"payment-identifier": {"info": {"id": "not offered"}}}},
        *map(in_another_case, (str.lower, str.upper, str.swapcase)),
    ]
    for number, change in enumerate(harmless):
        nonce = f"0x{'aB' * 31}{number:02x}"
        assert shop.submit(change(shop.signed(nonce))).status == 200, number
        assert shop.payments.settlements()[-1].nonce == nonce.lower()


@pytest.mark.rule("payment.valid-before", "payment.valid-after")
def test_the_limits_of_validity() -> None:
    """Six seconds are needed for the settlement; time is the service's."""
    shop = Shop()
    fits = [("validBefore", 6), ("validBefore", 10**9), ("validAfter", -600), ("validAfter", 0)]
    for number, (name, seconds) in enumerate(fits):
        assert shop.buy(number, **{name: str(START + seconds)}).status == 200, (name, seconds)
    content = shop.signed(9)
    shop.clock.advance(55)
    assert shop.submit(content).reason == BEFORE
    shop.clock.set(START + 54, allow_backwards=True)
    assert shop.submit(content).status == 200


@each_of(("skew", "reason"), [(600, BEFORE), (-600, AFTER)])
def test_a_payer_who_does_not_know_of_the_skew(skew: int, reason: str) -> None:
    shop = Shop(clock_skew=skew)
    assert shop.submit(payment(shop.ask(), START, 1, validAfter=str(START - 60))).reason == reason


@pytest.mark.rule("payment.order")
def test_the_order_in_which_it_looks() -> None:
    """From a payment in which everything is wrong, one thing after the other is put right."""
    shop = Shop()
    content = shop.signed(1)
    assert shop.submit(content).status == 200
    shop.payments.set_balance(PAYER.address, 0)
    order = {
        "x402Version": (3, VERSION),
        "accepted.amount": ("1", NO_MATCH),
        A + "from": ("x", MALFORMED),
        A + "to": (OTHER, RECEIVER),
        A + "value": ("1", AMOUNT),
        A + "validBefore": (str(START), BEFORE),
        A + "validAfter": (str(START + 9), AFTER),
        "payload.signature": ("0x" + "11" * 65, SIGNATURE),
    }
    for place, (_, reason) in enumerate(order.values()):
        sent = content
        for at, (value, _) in list(order.items())[place:]:
            sent = changed(sent, at, value)
        assert shop.raw(encode(sent).encode()).reason == reason
    assert shop.submit(content).reason == USED
    assert shop.buy(2).reason == "insufficient_funds"


@pytest.mark.rule("payment.nonce")
def test_a_nonce_works_once() -> None:
    shop = Shop()
    content = shop.signed(1)
    # A refused one is not used up.
    assert shop.submit(changed(content, "payload.signature", "0x" + "11" * 65)).reason == SIGNATURE
    assert shop.submit(content).status == 200
    for _ in range(2):
        assert shop.submit(content).reason == USED
    # For another request as well, and for another amount; but it is the payer's own.
    assert shop.buy(1, "top-performers", {"sortBy": "ROI"}).reason == USED
    assert shop.buy(2).status == 200
    assert shop.buy(1, payer=STRANGER).status == 200
    assert shop.settled() == 3


@pytest.mark.rule("payment.balance")
def test_a_balance_that_is_too_small() -> None:
    shop = Shop()
    shop.payments.set_balance(PAYER.address, 2 * PRICE - 1)
    assert shop.buy(1).status == 200
    assert shop.buy(2).reason == "insufficient_funds"
    shop.payments.set_balance(PAYER.address, PRICE)
    assert shop.buy(2).status == 200
    assert shop.payments.balance(PAYER.address) == 0


@pytest.mark.rule("payment.amount")
def test_a_payment_for_one_token_pays_for_any_but_not_for_two() -> None:
    shop = Shop()
    content = shop.signed(1)
    assert shop.submit(content, body=tokens("BRETT", "ETH")).reason == NO_MATCH
    assert shop.submit(content, body=tokens("ETH")).status == 200


def test_a_header_of_version_1_is_none() -> None:
    shop = Shop()
    old = encode(shop.signed(1)).encode()
    answer = shop.post(PATH, BODY, [(b"x-payment", old)])
    assert (answer.reason, shop.verdicts()) == (BARE, [])


def test_a_payment_where_nothing_is_sold_is_not_looked_at() -> None:
    shop = Shop(traded=True)
    paid = (b"payment-signature", encode(shop.signed(1)).encode())
    assert shop.post("supported-tokens", {}, [paid]).status == 200
    assert shop.send("GET", PATH, json.dumps(BODY).encode(), [JSON, paid]).status == 405
    assert shop.settled() == 0


# Taking the money


def test_what_is_bought_is_what_an_open_paywall_gives() -> None:
    shop = Shop(traded=True)
    for nonce, path in enumerate(PAID):
        shop.set_gaps(paywall="closed")
        bought = shop.buy(nonce, path=path, body=good_body(path)).data
        shop.set_gaps(paywall="open")
        assert shop.post(path, good_body(path)).data == bought


FAILING: list[tuple[str, Json, Json, int, str]] = [
    (PATH, tokens("NOPE"), {}, 404, "not charged"),
    ("token-signals", tokens("BRETT", "NOPE"), {}, 404, "not charged"),
    (PATH, tokens("a", "A"), {}, 400, "not carried out"),
    (PATH, tokens(), {"b_invalid": "402-first"}, 400, "not charged"),
    (PATH, BODY, {"b_rate": "60"}, 429, "not carried out"),
]


@pytest.mark.rule("payment.settled-after")
@each_of(("path", "body", "gaps", "status", "verdict"), FAILING)
def test_what_fails_is_not_charged(path: str, body: Json, gaps: Json, status: int, verdict: str) -> None:
    shop = Shop()
    count = len(body["tokens"]) if verdict == "not charged" else 0
    paid_for = tokens("BRETT", "ETH") if count > 1 else BODY
    content = shop.signed(1, path, paid_for)
    shop.set_gaps(**gaps)
    if status == 429:
        for _ in range(60):
            shop.post(path, body)
    answer = shop.submit(content, path, body)
    assert answer.status == status
    assert status == 429 or answer.error
    assert not [name for name in answer.headers if "payment" in name]
    assert (shop.settled(), shop.verdicts()) == (0, [(verdict, status)])
    assert shop.payments.balance(PAYER.address) == BEGINNING
    # The authorization is as good as before.
    shop.set_gaps(b_rate="none")
    assert shop.submit(content, path, paid_for).status == 200


def test_the_hash_of_a_transaction_follows_from_seed_payer_and_nonce() -> None:
    """And from the seed, who is paid."""

    def bought(seed: int, *nonces: int, payer: Any = PAYER) -> list[str]:
        shop = Shop(seed=seed)
        return [shop.buy(nonce, payer=payer).receipt()["transaction"] for nonce in nonces]

    first = bought(7, 1, 2)
    assert all(re.fullmatch("0x[0-9a-f]{64}", each) for each in first)
    assert bought(7, 2, 1) == first[::-1]
    assert not {*bought(8, 1, 2), *bought(7, 1, 2, payer=STRANGER)} & set(first)
    assert Shop(seed=7).payments.pay_to == Shop().payments.pay_to != Shop(seed=8).payments.pay_to


@pytest.mark.rule("payment.whole")
def test_a_crash_in_the_middle_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it breaks: in the endpoint, while the money is taken, or right after that."""
    shop = Shop()
    content = shop.signed(1)

    def crash(*args: object, **options: object) -> Any:
        raise RuntimeError("broken")

    for name in (
        "api.context.MarketCall.tokens",
        *(f"payments.settlements.{n}" for n in ("set_balance", "transaction", "conclude")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"tradesdk_mock.{name}", crash)
            answer = shop.submit(content)
        assert (answer.status, shop.settled(), shop.payments.balances()) == (500, 0, {}), name
        assert "payment-response" not in answer.headers
    assert shop.verdicts() == [("not carried out", 500)] * 4
    assert shop.submit(content).status == 200
    assert shop.payments.balances() == {PAYER.address: BEGINNING - PRICE}


def together(shops: list[Shop], contents: list[Json]) -> list[int]:
    """The statuses of these payments, submitted at the same time, in turn to these shops."""
    barrier = threading.Barrier(len(contents))

    def submit(place: int) -> int:
        barrier.wait()
        return shops[place % len(shops)].submit(contents[place]).status

    with ThreadPoolExecutor(len(contents)) as pool:
        return sorted(pool.map(submit, range(len(contents))))


@pytest.mark.rule("payment.nonce")
@pytest.mark.parametrize("servers", [1, 2])
def test_of_sixteen_that_submit_the_same_payment_one_is_charged(tmp_path: Path, servers: int) -> None:
    shops = [Shop(db=None if servers == 1 else tmp_path / "world.db") for _ in range(servers)]
    for nonce in range(1, 4):
        assert together(shops, [shops[0].signed(nonce)] * 16) == [200] + [402] * 15
    for shop in shops:
        assert [each.submitted for each in shop.payments.settlements()] == [16] * 3
        assert shop.payments.balance(PAYER.address) == BEGINNING - 3 * PRICE
        assert shop.payments.signatures() == 3
        shop.payments.assert_charged(times=3, amount=3 * PRICE)


@pytest.mark.rule("payment.balance")
def test_payers_together_do_not_spend_what_they_do_not_have(tmp_path: Path) -> None:
    shops = [Shop(db=tmp_path / "world.db") for _ in range(2)]
    shops[0].payments.set_balance(PAYER.address, 3 * PRICE + 1)
    assert together(shops, [shops[0].signed(nonce) for nonce in range(8)]) == [200] * 3 + [402] * 5
    assert shops[1].payments.balance(PAYER.address) == 1


@pytest.mark.rule("payment.whole")
def test_the_books_are_kept_in_the_file(tmp_path: Path) -> None:
    with Shop(db=tmp_path / "world.db") as first:
        content = first.signed(1)
        assert first.submit(content).status == 200
        before = first.payments.settlements()
    with Shop(db=tmp_path / "world.db") as shop:
        assert shop.payments.settlements() == before
        assert shop.payments.balance(PAYER.address) == BEGINNING - PRICE
        assert shop.submit(content).reason == USED
        (kept,) = shop.payments.settlements()
        assert (kept.submitted, kept.delivered) == (2, 200)
        shop.reset()
        assert (shop.payments.settlements(), shop.payments.submissions()) == ([], [])
        assert shop.payments.balance(PAYER.address) == BEGINNING


@pytest.mark.rule("payment.nonce")
def test_a_nonce_is_used_for_ever(tmp_path: Path) -> None:
    """A year later, over restarts: signed again with another validity, amount or recipient."""
    file = tmp_path / "world.db"
    with Shop(db=file, signals="scripted") as first:
        assert first.buy(1).status == 200
    for year in (1, 2, 30):
        with Shop(db=file, signals="scripted") as shop:
            shop.clock.set(START + year * 365 * 86_400)
            assert shop.buy(1).reason == USED
            shop.set_gaps(payment_window=86_400)
            assert shop.buy(1, "top-performers", {"sortBy": "ROI"}).reason == USED
            shop.add_fault("offer", fields={"payTo": STRANGER.address, "amount": "5"})
            assert shop.buy(1).reason == USED
            shop.clear_faults()
            assert shop.buy(year + 1).status == 200
    with Shop(db=file) as last:
        assert [each.nonce for each in last.payments.settlements()] == [nonce_of(nonce) for nonce in (1, 2, 3, 31)]
        last.payments.assert_charged(times=4, amount=4 * PRICE)


# The extension payment-identifier: the same payment again gets the stored answer again

IDENT = "pay_7d5d747be160e280"
EXTENSION = "extensions.payment-identifier"


@pytest.fixture(params=["optional", "required"])
def shop(request: pytest.FixtureRequest) -> Shop:
    return Shop(payment_identifier=request.param)


@pytest.mark.rule("payment.identifier.again")
def test_the_same_again_is_the_stored_answer_and_costs_nothing(shop: Shop) -> None:
    content = shop.signed(1, identifier=IDENT)
    first = shop.submit(content)
    assert first.data
    shop.clock.advance(3_600)  # prices are others by now, and the authorization is over
    for same in (content, content, backwards(content)):
        again = shop.submit(same)
        assert (again.status, again.body) == (200, first.body)
        for name in ("payment-response", "content-length"):
            assert again.headers[name] == first.headers[name]
    assert shop.settled() == 1
    assert shop.payments.balance(PAYER.address) == BEGINNING - PRICE
    assert shop.verdicts() == [("settled", 200)] + [("replayed", 200)] * 3
    shop.reset()
    shop.clock.set(START, allow_backwards=True)
    assert shop.submit(content).status == 200, "identifiers are forgotten with the world"
    assert shop.settled() == 1


@pytest.mark.rule("payment.identifier.again")
def test_the_same_identifier_for_another_payment_is_a_conflict(shop: Shop) -> None:
    # It is used up by a settlement only.
    assert shop.buy(1, identifier=IDENT, value="1").reason == AMOUNT
    assert shop.buy(2, body=tokens("NOPE"), identifier=IDENT).status == 404
    content = shop.signed(3, identifier=IDENT)
    assert shop.submit(content).status == 200
    for other, body in (
        (shop.signed(4, identifier=IDENT), BODY),
        (content, tokens("ETH")),
        (content | {"note": 1}, BODY),
    ):
        answer = shop.submit(other, PATH, body)
        assert (answer.status, bool(answer.error)) == (409, True)
        assert "payment-response" not in answer.headers
    assert shop.journal()[-1].error == "conflict"
    assert shop.settled() == 1


BAD: list[Any] = ["x" * 15, "x" * 129, "with space 0000000", "ünicode_000000000000", "", 5, [], {"a": 1}, True]


def test_what_is_an_identifier_and_what_is_none(shop: Shop) -> None:
    content = shop.signed(0)
    for ident in BAD:
        answer = shop.submit(changed(content, f"{EXTENSION}.info.id", ident))
        assert (answer.status, "info.id" in answer.error) == (400, True), ident
        assert shop.verdicts()[-1] == ("identifier invalid", 400)
    assert shop.settled() == 0
    for nonce, ident in enumerate(("x" * 16, "x" * 128, "AZaz09_-AZaz09_-")):
        assert shop.buy(nonce, identifier=ident).status == 200


@pytest.mark.rule("payment.identifier.missing")
def test_one_that_is_missing() -> None:
    shop = Shop(payment_identifier="required")
    content = shop.signed(1)
    answer = shop.submit(content)
    assert (answer.status, "payment-identifier" in answer.error) == (400, True)
    assert shop.journal()[-1].error == "invalid_request"
    assert shop.verdicts() == [("identifier missing", 400)]
    shop = Shop(payment_identifier="optional")
    content = shop.signed(1)
    assert shop.submit(content).status == 200
    assert shop.submit(content).reason == USED


SPOILED: list[tuple[str, object]] = [
    ("extensions", MISSING),
    ("extensions", {}),
    (f"{EXTENSION}.info.required", None),
    (f"{EXTENSION}.info.required", MISSING),
    (f"{EXTENSION}.info.more", 1),
    (f"{EXTENSION}.schema", MISSING),
    (f"{EXTENSION}.schema.properties.id.minLength", 1),
]


@pytest.mark.rule("payment.extensions")
def test_what_was_offered_is_repeated_untouched(shop: Shop) -> None:
    content = shop.signed(1, identifier=IDENT)
    for at, value in SPOILED:
        assert shop.submit(changed(content, at, value)).reason == "extension_echo_mismatch", at
    # What was not offered doesn't matter.
    assert shop.submit(changed(content, "extensions.builder-code", {"info": {"a": 1}})).status == 200
