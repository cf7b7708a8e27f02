"""What is refused before anything is signed, under which code, and which of several offers is taken."""

import itertools
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import ConfigError, PaymentRefusedError
from tradesdk.payments import PriceDetails, RecipientDetails
from tradesdk.payments.guards import Limits, check_url, checked_validity, choose, longest_validity, validity
from tradesdk.payments.protocol import Requirement, parse_offer

from .._rows import each_of
from ._hostile_offers import HOSTILE, OTHER
from ._offers import (
    DOMAIN,
    PAY_TO,
    PAYER,
    RESOURCE,
    USDC,
    answer_2,
    offer_2,
    requirement_2,
)

CAP = 120


def chosen(*accepts: dict[str, Any], offer: Any = None, **limits: Any) -> Requirement:
    """What is taken of these ways to pay, or of a whole offer; by default at most six cents."""
    asked: dict[str, Any] = {"url": RESOURCE["url"], "payer": PAYER, "most": 60_000, "max_validity": CAP}
    return choose(parse_offer(answer_2(offer_2(*accepts) if offer is None else offer)), Limits(**asked | limits))


def refusal(*accepts: dict[str, Any], **options: Any) -> Any:
    with pytest.raises(PaymentRefusedError) as caught:
        chosen(*accepts, **options)
    assert caught.value.hint
    assert caught.value.charged is False
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
    return caught.value


@each_of(("changes", "code"), HOSTILE)
def test_a_hostile_offer_is_refused_by_name(changes: dict[str, Any], code: str) -> None:
    assert refusal(requirement_2(**changes)).code == code


@each_of(
    ("changes", "message"),
    [
        ({"maxAmountRequired": "90000"}, "the amount is 60000, and maxAmountRequired is 90000"),
        (
            {"extra": {**DOMAIN, "verifyingContract": OTHER}},
            f"the extra.verifyingContract is {OTHER}, and only {USDC} is supported",
        ),
        (
            {"resource": "http://127.0.0.1:8402/v1/other"},
            f"the offer is for {RESOURCE['url']}, and resource in the way to pay is http://127.0.0.1:8402/v1/other",
        ),
    ],
)
def test_a_contradiction_is_named(changes: dict[str, Any], message: str) -> None:
    assert refusal(requirement_2(**changes)).message == message


@each_of(
    "changes",
    [
        {"asset": USDC.lower()},
        {"asset": "0x" + USDC[2:].upper()},
        {"payTo": PAY_TO.lower()},
        {"amount": "1"},
        {"amount": "0060000"},
        {"maxTimeoutSeconds": 10},
        {"maxTimeoutSeconds": 10.5},
        {"maxTimeoutSeconds": 1e308},
        {"maxTimeoutSeconds": 10**40},
        {"extra": {**DOMAIN, "assetTransferMethod": "eip3009"}},
        {"extra": {**DOMAIN, "assetTransferMethod": None}},
        {"extra": {**DOMAIN, "paymentFlow": "authorization"}},
        {"extra": {**DOMAIN, "further": {"a": [1]}}},
        {"extra": {**DOMAIN, "verifyingContract": USDC.lower(), "chainId": 8453}},
        {"extra": {**DOMAIN, "verifyingContract": None, "chainId": None}},
        {"extra": {**DOMAIN, "chainId": "8453"}},
        *({"maxAmountRequired": one} for one in ("60000", "0060000", 60000, None)),
        *({"resource": one} for one in (RESOURCE, RESOURCE["url"], RESOURCE["url"] + "/", "token prices", 5, None)),
        {"resource": RESOURCE["url"].replace("http:", "https:")},
        {"further": "keys"},
    ],
)
def test_what_is_no_attack(changes: dict[str, Any]) -> None:
    assert chosen(requirement_2(**changes)).raw == requirement_2(**changes)


def test_the_price_is_a_ceiling() -> None:
    assert chosen(requirement_2(), most=60_000).amount == "60000"
    error = refusal(requirement_2(), most=59_999)
    assert error.code == "over_price"
    assert error.message == "the service asks for $0.06, and this call may cost at most $0.059999"
    assert error.hint == "to pay that anyway: max_price='0.06'"
    assert error.details == PriceDetails(price=Decimal("0.06"), allowed=Decimal("0.059999"))
    assert refusal(requirement_2(), most=0).code == "over_price"


def test_an_absurd_price_is_not_spelled_out_and_not_suggested() -> None:
    error = refusal(requirement_2(amount=str(2**255)))
    assert "absurd" in error.message
    assert "max_price" not in error.hint


def test_the_cheapest_is_taken_and_of_equals_the_first() -> None:
    accepts = [requirement_2(amount=amount, note=note) for note, amount in enumerate(("9", "10", "010", "8", "08"))]
    assert chosen(*accepts).raw["note"] == 3
    assert chosen(*reversed(accepts)).raw["note"] == 4
    assert chosen(*accepts[:3]).raw["note"] == 0


def test_what_is_cheaper_and_not_acceptable_is_passed_over() -> None:
    good = requirement_2(amount="50000")
    others = [requirement_2(**{"amount": "1", **changes}) for changes, code in HOSTILE if "amount" not in changes]
    for other in others:
        assert chosen(other, good).raw == good
        assert chosen(good, other).raw == good
    assert chosen(*others[::2], good, *others[1::2]).raw == good


def test_only_known_recipients_when_there_are_any() -> None:
    assert chosen(requirement_2(), pay_to=[PAY_TO.lower()]).pay_to == PAY_TO
    assert chosen(requirement_2(), pay_to=(OTHER, PAY_TO)).pay_to == PAY_TO
    assert chosen(requirement_2(payTo=OTHER), pay_to={OTHER.lower(): 1}).pay_to == OTHER
    error = refusal(requirement_2(payTo=OTHER), pay_to=[PAY_TO])
    assert error.code == "recipient_changed"
    assert OTHER in error.message
    assert PAY_TO in error.message
    assert f"client.payments.trust('{OTHER}')" in error.hint
    assert error.details == RecipientDetails(address=OTHER, trusted=(PAY_TO,))


def test_a_dearer_offer_to_a_known_recipient_beats_a_cheap_one_to_a_stranger() -> None:
    cheap, known = requirement_2(amount="1", payTo=OTHER), requirement_2()
    assert chosen(cheap, known, pay_to=[PAY_TO]).raw == known


UPFRONT = {**DOMAIN, "paymentFlow": "upfront"}


@each_of("most", [10_000, 60_000])
def test_upfront_is_taken_only_where_nothing_else_is_acceptable(most: int) -> None:
    plain, cheap, cheapest = (
        requirement_2(),
        requirement_2(amount="9999", extra=UPFRONT),
        requirement_2(amount="9998", extra=UPFRONT),
    )
    for accepts in itertools.permutations((plain, cheap, cheapest)):
        best = plain if most == 60_000 else cheapest
        assert chosen(*accepts, most=most, allow_upfront=True).raw == best
        if most == 60_000:
            assert chosen(*accepts).raw == plain


SHOP = "https://shop.example/v1/token-prices"
SAME_PLACE = [
    *("https://SHOP.example.:443/v1/token-prices/", "https://shop\u3002example/v1/token-prices"),
    *(SHOP, "HTTPS://Shop.Example/other", "http://shop.example/v1/token-prices", "http://shop.example:8402/x"),
    *("/v1/token-prices", "token-prices", "", "?a=1", "urn:prices", "http://localhost:4021/x", "http://127.0.0.1/x"),
    *("http://app:8000/v1", "http://10.0.0.5:3000/x", "http://[fd00::5]/x"),
]
OTHER_PLACE = [
    *("https://elsewhere.example/v1/token-prices", "http://shop.example.evil/", "https://sub.shop.example/"),
    *("//elsewhere.example/x", "https://shop.example@elsewhere.example/", "https:elsewhere.example", "http://[bad"),
    *("https://93.184.215.14/x", "ftp://elsewhere.example/x", "https:///v1", "https://\x1b[2J.example/" + "x" * 5000),
]


@each_of("named", [*SAME_PLACE, None, 5, ["https://elsewhere.example"]])
def test_an_offer_for_what_was_asked(named: Any) -> None:
    """Behind a proxy, scheme and port are not those that were asked, and some say no place at all."""
    for resource in ({**RESOURCE, "url": named}, {}, None, named):
        assert chosen(offer=offer_2(resource=resource), url=SHOP).raw == requirement_2()


@each_of("named", OTHER_PLACE)
def test_an_offer_for_something_elsewhere_is_refused(named: str) -> None:
    error = refusal(offer=offer_2(resource={**RESOURCE, "url": named}), url=SHOP)
    assert error.code == "foreign_resource"
    assert error.message.endswith("the request was to shop.example")


ORDER: list[tuple[dict[str, Any], str]] = [
    ({"scheme": "upto"}, "unsupported_scheme"),
    ({"network": "eip155:1"}, "unsupported_network"),
    ({"asset": OTHER}, "unsupported_asset"),
    ({"extra": {}}, "unsupported_domain"),
    ({"extra": {**DOMAIN, "assetTransferMethod": "permit2"}}, "unsupported_method"),
    ({"extra": {**DOMAIN, "paymentFlow": "upfront"}}, "upfront_flow"),
    ({"amount": "-1"}, "bad_amount"),
    ({"amount": "70000"}, "over_price"),
    ({"payTo": "nobody"}, "bad_recipient"),
    ({"payTo": PAYER}, "recipient_is_payer"),
    ({"payTo": OTHER}, "recipient_changed"),
    ({"maxTimeoutSeconds": None}, "bad_validity"),
    ({"maxTimeoutSeconds": 1}, "short_validity"),
]


def test_of_several_refusals_the_closest_is_told() -> None:
    for (first, _), (second, code) in itertools.combinations(ORDER, 2):
        far, near = requirement_2(**first), requirement_2(**second)
        for accepts in ((far, near), (near, far)):
            error = refusal(*accepts, pay_to=[PAY_TO])
            assert error.code == code
            assert "1 other offer was refused as well" in error.message


def test_of_several_that_are_too_dear_the_cheapest_is_told() -> None:
    error = refusal(*(requirement_2(amount=amount) for amount in ("90000", "70000", "80000")))
    assert "$0.07" in error.message
    assert "2 other offers were refused as well" in error.message


def test_foreign_text_in_a_refusal_is_shown_with_care() -> None:
    long = "\x1b[2J\n" + "x" * 10_000
    fields: dict[str, Any] = dict.fromkeys(("scheme", "network", "asset", "amount", "payTo"), long)
    for changes in ({name: value} for name, value in {**fields, "extra": {"name": long, "version": long}}.items()):
        error = refusal(requirement_2(**changes))
        for text in (error.message, error.hint, str(error)):
            assert "\x1b" not in text
            assert len(text) < 600


@each_of(
    ("offered", "cap", "seconds"),
    [(60, 120, 60), (121, 120, 120), (10**40, 120, 120), (1e308, 120, 120), (59.9, 120, 59), (60, 30, 30), (-5, 60, 0)],
)
def test_a_payment_is_valid_no_longer_than_offered_and_than_allowed(offered: Any, cap: int, seconds: int) -> None:
    offer = parse_offer(answer_2(offer_2(requirement_2(maxTimeoutSeconds=offered))))
    assert longest_validity(offer.accepts[0], cap) == seconds


def test_the_least_validity() -> None:
    assert refusal(requirement_2(maxTimeoutSeconds=9)).code == "short_validity"
    assert chosen(requirement_2(maxTimeoutSeconds=10)).max_timeout == 10


@each_of("value", [0, -1, 9, 3601, True, 60.0, "60", None])
def test_a_validity_that_makes_no_sense(value: Any) -> None:
    with pytest.raises(ConfigError, match="max_validity"):
        checked_validity(value)


@each_of(
    "url",
    [
        *("https://example.com/v1/token-prices", "HTTPS://example.com", "https://10.0.0.1:8443/x"),
        *("http://127.0.0.1:8402", "http://localhost/v1", "http://[::1]:8402/v1", "http://127.8.9.1/"),
    ],
)
def test_where_a_payment_may_go(url: str) -> None:
    check_url(url)


@each_of(
    "url",
    [
        *("http://example.com/v1", "http://localhost.example.com", "http://127.0.0.1.example.com", "http://[::2]/"),
        *("http://user:secret@example.com/", "http://127.0.0.1@example.com/", "http://0.0.0.0/", "http://[bad"),
        *("", "/v1", "example.com", "//example.com", "https://", "https:///v1", "ftp://127.0.0.1", "ws://localhost"),
    ],
)
def test_where_it_may_not_go(url: str) -> None:
    with pytest.raises(PaymentRefusedError) as caught:
        check_url(url)
    assert caught.value.code == "insecure_url"
    assert "secret" not in str(caught.value)


AMOUNTS = st.integers(0, 200_000).map(str) | st.sampled_from(["-1", "1e3", "", None, str(2**256), "0007"])
REQUIREMENTS = st.builds(
    requirement_2,
    scheme=st.sampled_from(["exact", "exact", "exact", "upto"]),
    amount=AMOUNTS,
    payTo=st.sampled_from([PAY_TO, PAY_TO.lower(), OTHER]),
    maxTimeoutSeconds=st.sampled_from([60, 5, 1000.5, None]),
)


@given(accepts=st.lists(REQUIREMENTS, max_size=6), most=st.integers(0, 150_000), pinned=st.booleans())
def test_never_more_than_allowed_and_never_more_than_needed(
    accepts: list[dict[str, Any]], most: int, pinned: bool
) -> None:
    good = [
        int(raw["amount"])
        for raw in accepts
        if raw["scheme"] == "exact"
        and str(raw["amount"]).isdecimal()
        and 0 < int(raw["amount"]) <= most
        and (not pinned or raw["payTo"].lower() == PAY_TO.lower())
        and raw["maxTimeoutSeconds"] in (60, 1000.5)
    ]
    try:
        taken = chosen(offer=offer_2(accepts=accepts), most=most, pay_to=[PAY_TO] if pinned else [])
    except PaymentRefusedError:
        assert good == []
    else:
        assert int(taken.amount) == min(good) <= most
        assert taken.raw in accepts


NOW = 1_800_000_000.75


@each_of(
    ("ahead", "offered", "until"),
    [
        (0, 60, 60),
        (0, 600, 120),
        (59, 60, 119),
        (61, 60, 120),
        (110, 60, 120),
        (110, 600, 120),
        (-900, 60, -840),
        (-900, 600, -780),
    ],
)
def test_how_long_a_payment_is_valid(ahead: int, offered: int, until: int) -> None:
    """`ahead`: the service's clock, `until`: the end by the local one."""
    requirement = chosen(requirement_2(maxTimeoutSeconds=offered))
    service = NOW + ahead
    assert validity(requirement, CAP, local=NOW, service=service, latest=service) == int(NOW) + until


@each_of("ahead", [111, 600, 10**9, -901, -(10**9)])
def test_clocks_that_are_too_far_apart(ahead: int) -> None:
    with pytest.raises(PaymentRefusedError, match=f"differs from the service's by {abs(ahead)} s") as caught:
        validity(chosen(requirement_2()), CAP, local=NOW, service=NOW + ahead, latest=NOW + ahead)
    assert (caught.value.code, caught.value.charged) == ("clock_difference", False)
    assert caught.value.hint


def test_a_short_validity_that_a_small_difference_makes_too_short() -> None:
    """Differences of up to 5 s correct no date, but the time that is left is judged by the latest estimate."""
    requirement = chosen(requirement_2(), max_validity=12)
    assert validity(requirement, 12, local=NOW, service=NOW, latest=NOW + 2) == int(NOW) + 12
    with pytest.raises(PaymentRefusedError, match="differs from the service's by 4 s") as caught:
        validity(requirement, 12, local=NOW, service=NOW, latest=NOW + 4)
    assert caught.value.code == "clock_difference"


@given(
    ahead=st.floats(-1_000, 4_000),
    offered=st.integers(10, 4_000),
    most=st.integers(10, 3_600),
    local=st.floats(1.7e9, 1.9e9),
)
def test_no_date_makes_a_payment_valid_for_longer(ahead: float, offered: int, most: int, local: float) -> None:
    least = 10
    requirement, service = chosen(requirement_2(maxTimeoutSeconds=offered), max_validity=most), local + ahead
    until = None
    with suppress(PaymentRefusedError):
        until = validity(requirement, most, local=local, service=service, latest=service)
    if until is None:
        assert ahead > most - least - 1 or ahead < -900
        return
    assert until <= min(local, service) + most
    assert until - service > least - 1
