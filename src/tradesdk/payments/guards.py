"""Checks of an offer before anything is signed. No I/O; every refusal has a code and a hint."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from .._http.arguments import is_whole, wrong_setting
from .._http.service_time import MAX_DIFFERENCE
from .._http.settings import canonical_host
from .._values.details import PaymentDetails, PriceDetails
from .._values.hints import HINTS
from .._values.http import is_loopback
from .._values.money import shown_usd, usd
from .._values.payment import LONGEST_VALIDITY, NETWORK, USDC
from .._values.text import printable
from ..errors import ErrorCode, PaymentRefusedError
from .messages import recipient_changed
from .protocol import UPFRONT, Offer, Requirement

SCHEME = "exact"
DOMAIN_NAME = "USD Coin"
DOMAIN_VERSION = "2"
_CHAIN = (8453, "8453")

SHORTEST = 10
"""Seconds. A shorter validity leaves no time to resend: verifiers refuse less than six."""

_AMOUNT = re.compile(r"[0-9]{1,78}")  # 2^256 has 78 digits
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_NOBODY = frozenset({"0x" + "0" * 40, USDC.lower()})  # money sent there is lost


def checked_validity(max_validity: int) -> int:
    """The longest that a signed payment may be valid, whatever the service offers, in seconds."""
    if not is_whole(max_validity) or not SHORTEST <= max_validity <= LONGEST_VALIDITY:
        expected = f"a whole number of seconds from {SHORTEST} to {LONGEST_VALIDITY}"
        raise wrong_setting("max_validity", expected, max_validity)
    return int(max_validity)


class _Refusal(NamedTuple):
    """Why a requirement was refused. `step` grows with the checks that it passed."""

    step: int
    code: ErrorCode
    message: str
    hint: str = ""
    details: PaymentDetails | None = None
    excess: int = 0


class Limits(NamedTuple):
    """What an offer must keep to. `most`: micro-dollars; `pay_to`: the only recipients, if any."""

    url: str
    payer: str
    most: int
    max_validity: int
    pay_to: Collection[str] = ()
    allow_upfront: bool = False


def choose(offer: Offer, limits: Limits) -> Requirement:
    """The cheapest acceptable requirement; the first of those with the same price.

    One that takes the money before the work is chosen only if no other is acceptable, at any price.

    If none is acceptable, the refusal of the one that passed most checks is raised.
    """
    check_url(limits.url)
    judged = [(requirement, _refusal(offer, requirement, limits)) for requirement in offer.accepts]
    if not judged:
        raise PaymentRefusedError("the service requires payment and offers no way to pay", code="no_offer")
    acceptable = [requirement for requirement, refusal in judged if refusal is None]
    if acceptable:
        return min(acceptable, key=lambda one: (one.extra.get("paymentFlow") == UPFRONT, int(one.amount)))
    # Of two that are too expensive, the cheaper one is closer.
    closest = max((refusal for _, refusal in judged if refusal), key=lambda one: (one.step, -one.excess))
    others = len(offer.accepts) - 1
    more = "" if not others else f" ({others} other {'offer was' if others == 1 else 'offers were'} refused as well)"
    raise PaymentRefusedError(closest.message + more, code=closest.code, hint=closest.hint, details=closest.details)


def longest_validity(requirement: Requirement, max_validity: int) -> int:
    """How long a payment is valid, in seconds: as offered, at most the setting."""
    offered = requirement.max_timeout
    return 0 if offered is None else int(max(0, min(offered, max_validity)))


def validity(requirement: Requirement, max_validity: int, *, local: float, service: float, latest: float) -> int:
    """The `validBefore` to sign: at most `max_validity` seconds ahead, by the local clock and by the service's.

    So a service whose clock is ahead has less time, and too little if it is ahead by more than the validity.
    """
    until = min(int(service) + longest_validity(requirement, max_validity), int(local) + max_validity)
    if until - int(latest) < SHORTEST or local - service > MAX_DIFFERENCE:
        difference = max(latest - local, local - service)
        raise PaymentRefusedError(
            f"this machine's clock differs from the service's by {difference:.0f} s, and a payment is valid for at "
            f"most {max_validity} s by both",
            code="clock_difference",
            hint="correct this machine's clock; if it is correct, do not trust the service's date "
            "(for a mock whose clock was moved: clock=)",
        )
    return until


def check_url(url: str) -> None:
    """A signed payment is as good as money, so it is sent only by https or to this machine."""
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname or ""
    except ValueError:
        scheme, host = "", ""
    if not host or not (scheme == "https" or (scheme == "http" and is_loopback(host))):
        where = printable(f"{scheme}://{host}", 200) if host else "the base URL"  # the rest may contain a password
        raise PaymentRefusedError(
            f"{where} is neither https nor this machine, so nothing is paid there",
            code="insecure_url",
        )


def _refusal(offer: Offer, requirement: Requirement, limits: Limits) -> _Refusal | None:
    if requirement.scheme != SCHEME:
        return _Refusal(0, "unsupported_scheme", _not("scheme", requirement.scheme, SCHEME))
    if requirement.network != NETWORK:
        return _Refusal(1, "unsupported_network", _not("network", requirement.network, NETWORK))
    if requirement.asset.lower() != USDC.lower():
        return _Refusal(2, "unsupported_asset", _not("asset", requirement.asset, USDC))
    return (
        _refused_transfer(requirement, allow_upfront=limits.allow_upfront)
        or _refused_resource(offer, requirement, limits.url)
        or _refused_amount(requirement, limits.most)
        or _refused_recipient(requirement, limits)
        or _refused_validity(requirement, limits.max_validity)
    )


def _refused_transfer(requirement: Requirement, *, allow_upfront: bool) -> _Refusal | None:
    extra = requirement.extra
    name, version = extra.get("name"), extra.get("version")
    if name != DOMAIN_NAME or version != DOMAIN_VERSION:
        offered = f"{name} {version}" if isinstance(name, str) and isinstance(version, str) else ""
        supported = f"{DOMAIN_NAME} {DOMAIN_VERSION}"
        return _Refusal(3, "unsupported_domain", _not("signing domain", offered, supported))
    contract, chain = extra.get("verifyingContract"), extra.get("chainId")
    if contract is not None and not (isinstance(contract, str) and contract.lower() == requirement.asset.lower()):
        return _Refusal(3, "unsupported_domain", _not("extra.verifyingContract", contract, USDC))
    if chain is not None and chain not in _CHAIN:
        return _Refusal(3, "unsupported_domain", _not("extra.chainId", str(chain), "8453"))
    method, flow = extra.get("assetTransferMethod"), extra.get("paymentFlow")
    if method not in (None, "eip3009"):
        return _Refusal(4, "unsupported_method", _not("transfer method", method, "eip3009"))
    if flow == UPFRONT and not allow_upfront:
        return _Refusal(5, "upfront_flow", "the service takes the money before it does the work (paymentFlow: upfront)")
    if flow not in (None, "authorization", UPFRONT):
        return _Refusal(5, "unsupported_flow", _not("payment flow", flow, "authorization"))
    return None


def _refused_resource(offer: Offer, requirement: Requirement, url: str) -> _Refusal | None:
    """The refusal of an offer for another host, or for two resources: a relay could make the caller pay for its own.

    Behind a proxy, scheme and port may differ, and the host may be a private one: `localhost`, `app`, 10.0.0.5.
    """
    requested, _ = _host_and_path(url) or ("", "")
    urls = {}
    for resource in (offer.resource, requirement.raw.get("resource")):
        named = resource.get("url") if isinstance(resource, dict) else resource
        if not isinstance(named, str) or (found := _host_and_path(named)) is None:
            continue
        if not found[0] or not (found[0] == requested or _is_private(found[0])):
            message = f"the offer is for {printable(named, 200)}, and the request was to {printable(requested, 200)}"
            return _Refusal(6, "foreign_resource", message)
        urls[found] = named
    if len(urls) > 1:
        offered, inside = (printable(named, 200) for named in urls.values())
        message = f"the offer is for {offered}, and resource in the way to pay is {inside}"
        return _Refusal(6, "foreign_resource", message)
    return None


@lru_cache(maxsize=8)  # a service names the same URLs in every offer
def _host_and_path(url: str) -> tuple[str, str] | None:
    """Host and path of a URL, the host empty if it is invalid; None if it is no URL."""
    try:
        parts = urlsplit(url)
        is_url = bool(parts.netloc) or parts.scheme in ("http", "https")
        return (canonical_host(parts), parts.path.rstrip("/")) if is_url else None
    except ValueError:
        return "", ""


def _is_private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host


def _refused_amount(requirement: Requirement, most: int) -> _Refusal | None:
    amount = int(requirement.amount) if _AMOUNT.fullmatch(requirement.amount) else 0
    if not 0 < amount < 2**256:
        shown = printable(requirement.amount, 80) or "not a text"
        return _Refusal(7, "bad_amount", f"the amount is {shown}, not a whole number of units above 0")
    other = requirement.raw.get("maxAmountRequired")  # version 1 of the protocol has the amount here
    if isinstance(other, str) and _AMOUNT.fullmatch(other):
        other = int(other)
    if other is not None and (type(other) is not int or other != amount):
        message = f"the amount is {requirement.amount}, and maxAmountRequired is {printable(str(other), 80)}"
        return _Refusal(7, "bad_amount", message)
    if amount > most:
        price, hint = shown_usd(amount), f"to pay that anyway: max_price='{shown_usd(amount)[1:]}'"
        if amount >= 10**18:
            price, hint = "an absurd amount", HINTS["bad_amount"]
        message = f"the service asks for {price}, and this call may cost at most {shown_usd(most)}"
        details = PriceDetails(price=usd(amount), allowed=usd(most))
        return _Refusal(8, "over_price", message, hint, details, excess=amount - most)
    return None


def _refused_recipient(requirement: Requirement, limits: Limits) -> _Refusal | None:
    address = requirement.pay_to
    if not _ADDRESS.fullmatch(address) or address.lower() in _NOBODY:
        shown = printable(address, 80) or "not a text"
        return _Refusal(9, "bad_recipient", f"the recipient is {shown}, which is not an address that can be paid")
    if address.lower() == limits.payer.lower():
        return _Refusal(10, "recipient_is_payer", f"the recipient is {address}, the paying wallet itself")
    if limits.pay_to and address.lower() not in {one.lower() for one in limits.pay_to}:
        refused = recipient_changed(address, limits.pay_to)
        return _Refusal(11, refused.code, refused.message, refused.hint, refused.details)
    return None


def _refused_validity(requirement: Requirement, max_validity: int) -> _Refusal | None:
    if requirement.max_timeout is None:
        return _Refusal(12, "bad_validity", "the offer does not say how long a payment is valid")
    seconds = longest_validity(requirement, max_validity)
    if seconds < SHORTEST:
        message = f"a payment would be valid for only {seconds} s, and the minimum is {SHORTEST} s"
        return _Refusal(13, "short_validity", message)
    return None


def _not(what: str, offered: object, supported: str) -> str:
    shown = printable(offered, 80) if isinstance(offered, str) and offered else "missing or not a text"
    return f"the {what} is {shown}, and only {supported} is supported"
