"""What a verifier looks at, in which order, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from tradesdk_mock.payments import settlements

from ._market import tokens
from ._paying import PAYER, STRANGER, Json, authorization, nonce_of, sign
from ._shop import BODY, PATH, Shop, reason
from ._support import START

CODE = "invalid_exact_evm_payload_"
VERSIONS = pytest.mark.parametrize("version", [2, 1])
OTHER = "0x" + "66" * 20


@pytest.mark.rule("payment.receiver")
@VERSIONS
def test_another_receiver(version: int) -> None:
    assert reason(Shop().buy(1, version, to=OTHER)) == CODE + "recipient_mismatch"


@pytest.mark.rule("payment.amount")
@VERSIONS
@pytest.mark.parametrize("value", ["29999", "30001", "0", "60000", str(2**256 - 1)])
def test_another_amount(version: int, value: str) -> None:
    assert reason(Shop().buy(1, version, value=value)) == CODE + "authorization_value_mismatch"


@pytest.mark.rule("payment.valid-before")
@VERSIONS
def test_the_end_of_validity(version: int) -> None:
    """Six seconds are needed for the settlement."""
    shop = Shop()
    for before, fits in ((0, False), (START, False), (START + 5, False), (START + 6, True), (START + 10**9, True)):
        answer = shop.buy(before, version, validBefore=str(before))
        if fits:
            assert answer.status == 200, before
        else:
            assert reason(answer) == CODE + "authorization_valid_before"


@pytest.mark.rule("payment.valid-after")
@VERSIONS
def test_the_begin_of_validity(version: int) -> None:
    shop = Shop()
    for after, fits in ((0, True), (START - 600, True), (START, True), (START + 1, False), (START + 50, False)):
        answer = shop.buy(after, version, validAfter=str(after))
        if fits:
            assert answer.status == 200, after
        else:
            assert reason(answer) == CODE + "authorization_valid_after"


@pytest.mark.rule("payment.valid-before")
def test_time_is_the_services_time() -> None:
    shop = Shop()
    content = shop.signed(1)
    shop.clock.advance(55)
    assert reason(shop.present(content)) == CODE + "authorization_valid_before"
    shop.clock.set(START + 54, allow_backwards=True)
    assert shop.present(content).status == 200
    for skew in (600, -600):
        shop.world.set_gaps({"clock_skew": skew})
        late = shop.signed(2 + skew % 7)
        # Signed by the clock of a payer who doesn't know of the difference.
        fields = authorization(late["accepted"], shop.clock.now(), 50 + skew % 7)
        if skew < 0:
            fields["validAfter"] = str(int(shop.clock.now()) - 60)
        late["payload"] = {"authorization": fields, "signature": sign(late["accepted"], fields)}
        assert reason(shop.present(late)) == CODE + (
            "authorization_valid_before" if skew > 0 else "authorization_valid_after"
        )


@VERSIONS
def test_a_signature_of_somebody_else(version: int) -> None:
    shop = Shop()
    content = shop.signed(1, version, payer=STRANGER)
    content["payload"]["authorization"]["from"] = PAYER.address
    assert reason(shop.present(content)) == CODE + "signature"


@pytest.mark.rule("payment.signed")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("validAfter", "1"),
        ("validBefore", str(START + 59)),
        ("nonce", nonce_of(2)),
        ("from", STRANGER.address),
    ],
)
@VERSIONS
def test_a_field_that_was_changed_after_signing(version: int, name: str, value: str) -> None:
    shop = Shop()
    content = shop.signed(1, version)
    content["payload"]["authorization"][name] = value
    assert reason(shop.present(content)) == CODE + "signature"
    assert shop.settled() == 0


@pytest.mark.parametrize(
    "signature", ["", "0x", "0x12", "nonsense", "0x" + "0" * 130, "0x" + "f" * 130, "0x" + "1" * 129]
)
def test_what_is_no_signature(signature: str) -> None:
    shop = Shop()
    content = shop.signed(1)
    content["payload"]["signature"] = signature
    assert reason(shop.present(content)) == CODE + "signature"


@pytest.mark.rule("payment.signed")
@pytest.mark.parametrize(
    "domain",
    [{"extra": {"name": "USDC", "version": "2"}}, {"network": "eip155:84532"}, {"asset": "0x" + "11" * 20}],
    ids=["name", "chain", "contract"],
)
def test_a_signature_for_another_token(domain: dict[str, Any]) -> None:
    shop = Shop()
    content = shop.signed(1)
    inner = content["payload"]
    inner["signature"] = sign(content["accepted"] | domain, inner["authorization"])
    assert reason(shop.present(content)) == CODE + "signature"


@pytest.mark.rule("payment.nonce")
@VERSIONS
def test_a_nonce_works_once(version: int) -> None:
    shop = Shop()
    content = shop.signed(1, version)
    assert shop.present(content).status == 200
    for _ in range(2):
        assert reason(shop.present(content)) == "invalid_exact_evm_nonce_already_used"
    # For another request as well, and for another amount.
    assert reason(shop.buy(1, version, "top-performers", {"sortBy": "ROI"})) == "invalid_exact_evm_nonce_already_used"
    assert shop.buy(2, version).status == 200
    assert shop.settled() == 2


@pytest.mark.rule("payment.nonce")
def test_a_nonce_is_of_one_payer() -> None:
    shop = Shop()
    assert shop.buy(1).status == 200
    assert shop.buy(1, payer=STRANGER).status == 200
    assert shop.settled() == 2


@pytest.mark.rule("payment.nonce")
def test_a_refused_nonce_is_not_used_up() -> None:
    shop = Shop()
    content = shop.signed(1)
    spoiled = content | {"payload": content["payload"] | {"signature": "0x" + "11" * 65}}
    assert reason(shop.present(spoiled)) == CODE + "signature"
    assert shop.present(content).status == 200


@pytest.mark.rule("payment.balance")
@VERSIONS
def test_a_balance_that_is_too_small(version: int) -> None:
    shop = Shop()
    settlements.set_balance(shop.world, PAYER.address, 59_999)
    assert shop.buy(1, version).status == 200
    assert reason(shop.buy(2, version)) == "insufficient_funds"
    settlements.set_balance(shop.world, PAYER.address, 30_000)
    assert shop.buy(2, version).status == 200
    assert settlements.balance(shop.world, PAYER.address) == 0


def wrong(shop: Shop, content: Json, **fields: str) -> Json:
    """The same payment with these fields, signed anew unless the signature is one of them."""
    signature = fields.pop("signature", None)
    given = content["payload"]["authorization"] | fields
    signed = signature or sign(content["accepted"], given)
    return content | {"payload": {"authorization": given, "signature": signed}}


@pytest.mark.rule("payment.order")
def test_the_order_in_which_it_looks() -> None:
    """From a payment in which everything is wrong, one thing after the other is put right."""
    shop = Shop()
    used = shop.signed(1)
    assert shop.present(used).status == 200
    settlements.set_balance(shop.world, PAYER.address, 0)
    bad = {
        "to": OTHER,
        "value": "1",
        "validBefore": str(START),
        "validAfter": str(START + 9),
        "signature": "0x" + "11" * 65,
    }
    right = used["payload"]["authorization"]
    expected = [
        CODE + "recipient_mismatch",
        CODE + "authorization_value_mismatch",
        CODE + "authorization_valid_before",
        CODE + "authorization_valid_after",
        CODE + "signature",
    ]
    for name, code in zip(list(bad), expected, strict=True):
        assert reason(shop.present(wrong(shop, used, **bad))) == code
        bad = {key: value for key, value in bad.items() if key != name}
    assert right["nonce"] == nonce_of(1)
    assert reason(shop.present(used)) == "invalid_exact_evm_nonce_already_used"
    assert reason(shop.buy(2)) == "insufficient_funds"
    # Before all of that: what was chosen, and whether the payment is well formed.
    other = shop.signed(3)
    other["payload"]["authorization"]["value"] = "x"
    assert reason(shop.present(other)) == "invalid_payload"
    assert reason(shop.present(other | {"accepted": {}})) == "No matching payment requirements"
    assert reason(shop.raw(b"e30=")) == "invalid_x402_version"


@pytest.mark.rule("payment.amount")
def test_a_payment_for_one_token_does_not_pay_for_two() -> None:
    shop = Shop()
    content = shop.signed(1, body=BODY)
    assert reason(shop.present(content, PATH, tokens("BRETT", "ETH"))) == "No matching payment requirements"
    assert shop.present(content, PATH, tokens("ETH")).status == 200


@pytest.mark.rule("payment.refused")
def test_every_refusal_is_written_down() -> None:
    shop = Shop()
    shop.buy(1, to=OTHER)
    shop.buy(2, value="1")
    shop.buy(3)
    rows = shop.world.store.all("SELECT verdict, status, nonce FROM presentations ORDER BY seq")
    assert rows == [
        (CODE + "recipient_mismatch", 402, nonce_of(1)),
        (CODE + "authorization_value_mismatch", 402, nonce_of(2)),
        ("settled", 200, nonce_of(3)),
    ]
