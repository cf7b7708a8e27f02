"""The extension payment-identifier: the same payment again gets the stored answer again."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tradesdk_mock.payments import settlements

from ._market import tokens
from ._paying import PAYER
from ._shop import PATH, Shop, reason

IDENT = "pay_7d5d747be160e280"
OTHER = "pay_0000000000000000"


@pytest.fixture(params=["optional", "required"])
def shop(request: pytest.FixtureRequest) -> Shop:
    return Shop(payment_identifier=request.param)


def test_it_is_offered(shop: Shop) -> None:
    required = shop.world.gaps.payment_identifier == "required"
    offered = shop.ask()["extensions"]["payment-identifier"]
    assert offered["info"] == {"required": required}
    assert offered["schema"]["properties"]["id"]["minLength"] == 16
    assert "extensions" not in shop.ask(1)
    shop.world.set_gaps({"payment_identifier": "none"})
    assert "extensions" not in shop.ask()


@pytest.mark.rule("payment.identifier.again")
def test_the_same_again_is_the_stored_answer_and_costs_nothing(shop: Shop) -> None:
    content = shop.signed(1, identifier=IDENT)
    first = shop.present(content)
    assert first.data
    held = settlements.balance(shop.world, PAYER.address)
    shop.clock.advance(3_600)  # prices are others by now, and the authorization is over
    for _ in range(3):
        again = shop.present(content)
        assert (again.status, again.body) == (first.status, first.body)
        assert again.headers["payment-response"] == first.headers["payment-response"]
        assert again.headers["content-length"] == first.headers["content-length"]
    assert shop.settled() == 1
    assert settlements.balance(shop.world, PAYER.address) == held
    verdicts = shop.world.store.all("SELECT verdict, status FROM presentations")
    assert verdicts == [("settled", 200)] + [("replayed", 200)] * 3


def test_the_order_of_its_fields_is_free(shop: Shop) -> None:
    content = shop.signed(1, identifier=IDENT)
    first = shop.present(content)
    again = shop.present(dict(reversed(content.items())))
    assert (again.status, again.body) == (200, first.body)


@pytest.mark.rule("payment.identifier.again")
def test_the_same_identifier_for_another_payment_is_a_conflict(shop: Shop) -> None:
    content = shop.signed(1, identifier=IDENT)
    assert shop.present(content).status == 200
    for other, body in (
        (shop.signed(2, identifier=IDENT), tokens("BRETT")),
        (content, tokens("ETH")),
        (content | {"note": 1}, tokens("BRETT")),
    ):
        answer = shop.present(other, PATH, body)
        assert answer.status == 409
        assert answer.error
        assert "payment-response" not in answer.headers
    assert shop.world.journal.entries()[-1].error == "conflict"
    assert shop.settled() == 1


def test_an_identifier_is_used_up_by_a_settlement_only(shop: Shop) -> None:
    assert reason(shop.buy(1, identifier=IDENT, value="1"))
    assert shop.buy(2, path=PATH, body=tokens("NOPE"), identifier=IDENT).status == 404
    assert shop.buy(3, identifier=IDENT).status == 200


BAD: list[Any] = ["short", "x" * 15, "x" * 129, "with space 0000000", "ünicode_000000000000", "", 5, [], {"a": 1}, True]


@pytest.mark.parametrize("ident", BAD, ids=lambda ident: repr(ident)[:20])
def test_what_is_no_identifier(shop: Shop, ident: object) -> None:
    content = shop.signed(1)
    content["extensions"]["payment-identifier"]["info"]["id"] = ident
    answer = shop.present(content)
    assert (answer.status, "info.id" in answer.error) == (400, True)
    assert shop.settled() == 0


@pytest.mark.parametrize("ident", ["x" * 16, "x" * 128, "AZaz09_-AZaz09_-"])
def test_what_is_one(shop: Shop, ident: str) -> None:
    assert shop.buy(1, identifier=ident).status == 200


@pytest.mark.rule("payment.identifier.missing")
def test_one_that_is_required_is_missing() -> None:
    shop = Shop(payment_identifier="required")
    answer = shop.buy(1)
    assert answer.status == 400
    assert "payment-identifier" in answer.error
    assert shop.world.journal.entries()[-1].error == "invalid_request"
    assert shop.world.store.all("SELECT verdict FROM presentations") == [("identifier missing",)]
    assert shop.buy(1, identifier=IDENT).status == 200
    # Version 1 has no extensions, so that nothing is missing there.
    assert shop.buy(2, version=1).status == 200


def test_one_that_is_optional_may_be_missing() -> None:
    shop = Shop(payment_identifier="optional")
    content = shop.signed(1)
    assert shop.present(content).status == 200
    assert reason(shop.present(content)) == "invalid_exact_evm_nonce_already_used"


def spoiled(content: dict[str, Any]) -> list[dict[str, Any]]:
    found = [copy.deepcopy(content) for _ in range(7)]
    extension = [each["extensions"]["payment-identifier"] for each in found]
    del found[0]["extensions"]
    found[1]["extensions"] = {}
    extension[2]["info"]["required"] = None
    del extension[3]["info"]["required"]
    extension[4]["info"]["more"] = 1
    del extension[5]["schema"]
    extension[6]["schema"]["properties"]["id"]["minLength"] = 1
    return found


@pytest.mark.rule("payment.extensions")
@pytest.mark.parametrize("place", range(7))
def test_what_was_offered_is_repeated_untouched(shop: Shop, place: int) -> None:
    content = shop.signed(1, identifier=IDENT)
    assert reason(shop.present(spoiled(content)[place])) == "extension_echo_mismatch"
    assert shop.present(content).status == 200


@pytest.mark.rule("payment.extensions")
def test_extensions_that_were_not_offered_do_not_matter(shop: Shop) -> None:
    content = shop.signed(1, identifier=IDENT)
    content["extensions"]["builder-code"] = {"info": {"a": 1}}
    assert shop.present(content).status == 200
    other = Shop()
    assert (
        other.present(other.signed(1) | {"extensions": {"payment-identifier": {"info": {"id": IDENT}}}}).status == 200
    )


def test_identifiers_are_forgotten_with_the_world(shop: Shop) -> None:
    content = shop.signed(1, identifier=IDENT)
    first = shop.present(content)
    shop.world.reset()
    assert shop.present(content).status == 200
    assert first.status == 200
    assert shop.settled() == 1
    assert shop.buy(2, identifier=OTHER).status == 200
