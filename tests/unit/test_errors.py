"""The error tree: who is whose child, one printable line each, and nothing lost on the way to another process."""

import copy
import inspect
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import (
    AmbiguousOutcomeError,
    APIConnectionError,
    APIError,
    APIStatusError,
    Budget,
    CheckpointError,
    ConfigError,
    InvalidArgumentError,
    LocalSigner,
    MarketClient,
    PaymentError,
    RateLimit,
    RateLimitError,
    RawResponse,
    RetryPolicy,
    Timeout,
    TradeClient,
    TradeError,
    create_keystore,
    errors,
    keystore_address,
)
from tradesdk._values.text import printable
from tradesdk.payments import BudgetDetails
from tradesdk.payments.messages import outcome_error
from tradesdk.payments.state_machine import REJECTED as REJECTION
from tradesdk.payments.state_machine import Report

from .._payments import REJECTED, payment
from .._rows import each_of
from .._texts import WEAPONS, texts
from ._pickled import pickled

WHERE: dict[str, Any] = {"method": "POST", "url": "https://api.example.com/v1/agents"}
MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
DETAILS = BudgetDetails(cost=Decimal("0.06"), limit="per_day", limit_amount=Decimal(5), room_at=MOMENT)
RESPONSE = RawResponse(429, {"retry-after": "5"}, b'{"error": {}}')

CLASSES: list[type[TradeError]] = [
    cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, TradeError)
]
TREE = {
    "TradeError": "Exception",
    "ConfigError": "TradeError",
    "InvalidArgumentError": "TradeError",
    "APIError": "TradeError",
    "APIConnectionError": "APIError",
    "APITimeoutError": "APIConnectionError",
    "APIStatusError": "APIError",
    "InvalidRequestError": "APIStatusError",
    "InvalidSignatureError": "InvalidRequestError",
    "AuthenticationError": "APIStatusError",
    "PermissionDeniedError": "APIStatusError",
    "NotFoundError": "APIStatusError",
    "ConflictError": "APIStatusError",
    "UnprocessableEntityError": "APIStatusError",
    "RateLimitError": "APIStatusError",
    "InternalServerError": "APIStatusError",
    "BadGatewayError": "APIStatusError",
    "ServiceUnavailableError": "APIStatusError",
    "APIResponseError": "APIError",
    "AmbiguousOutcomeError": "APIError",
    "StreamError": "APIError",
    "StreamEndedError": "StreamError",
    "FleetError": "TradeError",
    "CheckpointError": "TradeError",
    "PaymentError": "TradeError",
    "PaymentRefusedError": "PaymentError",
    "PaymentRejectedError": "PaymentError",
    "PaymentOutcomeUnknownError": "PaymentError",
    "PaymentUndeliveredError": "PaymentError",
    "LedgerError": "PaymentError",
}


def arguments(cls: type[TradeError]) -> dict[str, Any]:
    """Everything such an error takes, set to something else than its default."""
    given: dict[str, Any] = {"code": "ledger_failed", "hint": "look there"}
    if issubclass(cls, PaymentError):
        given |= {"reason": "why not", "details": DETAILS, "payment": payment(), "response": RESPONSE}
    if issubclass(cls, APIError):
        given = {**WHERE}
        if not issubclass(cls, AmbiguousOutcomeError | APIConnectionError):
            given["response"] = RESPONSE
        if not issubclass(cls, AmbiguousOutcomeError | APIStatusError):
            given["code"] = "pagination_loop"
    if issubclass(cls, APIConnectionError):
        given |= {"sent": True, "temporary": False}
    if issubclass(cls, APIStatusError):
        given |= {"status": 429, "service_code": "too_fast"}
        given |= {"retry_after": 5.0, "retry_at": MOMENT, "rate_limit": RateLimit(60, 0, MOMENT)}
    if issubclass(cls, CheckpointError):
        given |= {"path": "/home/me/place.json"}
    if issubclass(cls, AmbiguousOutcomeError):
        given["candidates"] = ("agt_1", "agt_2")
    return given


def example(cls: type[TradeError], message: str = "why") -> TradeError:
    return cls(message, **arguments(cls))


def test_the_tree() -> None:
    assert {cls.__name__: cls.__bases__[0].__name__ for cls in CLASSES} == TREE
    assert issubclass(InvalidArgumentError, ValueError)
    for name in TREE:
        assert name in (errors.__doc__ or ""), "the drawing lacks it"


@each_of("cls", CLASSES)
def test_each_keeps_all_it_has_and_can_be_pickled_and_copied(cls: type[TradeError]) -> None:
    given, error = arguments(cls), example(cls)
    assert set(inspect.signature(cls).parameters) == {"message", *given}
    assert {name: getattr(error, name) for name in given} | {"message": error.message} == given | {"message": "why"}
    error.add_note("said later")
    for other in (pickled(error), pickled(pickled(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is cls
        assert vars(other) == vars(error)
        assert other.args == error.args == ("why",)
        assert (str(other), repr(other)) == (str(error), repr(error))


class OwnError(RateLimitError):
    """As a user would write one, with a constructor of its own."""

    def __init__(self, bot: str) -> None:
        super().__init__(f"{bot} is too fast", status=429, **WHERE)
        self.bot = bot


def test_a_class_of_a_user_can_be_pickled_as_well() -> None:
    error = pickled(OwnError("bot 7"))
    assert type(error) is OwnError
    assert (error.bot, error.status, error.message) == ("bot 7", 429, "bot 7 is too fast")


@each_of("cls", CLASSES)
def test_hostile_text_stays_on_one_printable_line(cls: type[TradeError]) -> None:
    for text in (*WEAPONS.values(), "x" * 10**5):
        error = example(cls, text)
        if isinstance(error, APIError):
            error.url += text
            error.method = text
        if isinstance(error, APIStatusError):
            error.service_code = text
        if isinstance(error, PaymentError):
            error.reason = text
        assert str(error).isprintable()
        assert "\n" not in repr(error)
        assert len(str(error)) < 15_000
        assert error.message == text


@given(texts(), st.integers(1, 100))
def test_printable(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    if text.isprintable() and len(text) <= limit:
        assert shown == text
    assert ("…" in shown) >= (len(text) > limit)
    assert len(shown) <= 10 * limit + 1


def test_what_it_says() -> None:
    assert str(ConfigError("no key")) == "no key"
    assert str(APIError("lost", **WHERE)) == "lost (POST https://api.example.com/v1/agents)"
    once = APIError("lost", **WHERE)
    once.retries = 1
    assert str(once) == "lost (POST https://api.example.com/v1/agents; after 1 retry)"
    open_end = APIError("lost", **WHERE)
    open_end.retries, open_end.outcome = 5, "unknown"
    assert "after 5 retries; it may have been carried out; check before sending it again)" in str(open_end)
    assert str(APIStatusError("", status=418, **WHERE)) == "418 (POST https://api.example.com/v1/agents)"
    assert str(APIStatusError("m", status=418, service_code="c", **WHERE)).startswith("418 c: m (")
    assert APIStatusError("m", status=418, service_code="c", **WHERE).headline == "418 c: m"


def test_defaults() -> None:
    error = APIStatusError("m", status=500, **WHERE)
    assert (error.service_code, error.response, dict(error.headers), error.body) == (None, None, {}, b"")
    assert (error.retry_after, error.retry_at, error.rate_limit) == (None, None, None)
    assert (error.outcome, error.retries) == ("none", 0)
    assert APIStatusError("m", status=429, response=RESPONSE, **WHERE).body == RESPONSE.content
    assert AmbiguousOutcomeError("m", **WHERE).outcome == "unknown"
    assert AmbiguousOutcomeError("m", **WHERE).candidates == ()
    assert AmbiguousOutcomeError("m", candidates=["a"], **WHERE).candidates == ("a",)
    assert APIConnectionError("m", sent=False, **WHERE).temporary


# Codes tell apart what a caller handles differently

URL = "https://service.example"
KEY = "0x" + "01" * 32
EXACT = "invalid_exact_evm_payload"


def trade(**settings: Any) -> TradeClient:
    given: dict[str, Any] = {"api_key": "k", "base_url": URL, **settings}
    return TradeClient(**given)


def closed_client() -> None:
    client = trade()
    client.close()
    client.account.get()


class OddSigner:
    address = LocalSigner.from_key(KEY).address

    def sign_digest(self, digest: bytes) -> bytes:
        return b"too short"


@each_of(
    ("use", "code"),
    [
        (lambda: trade(base_url="service.example"), "invalid_base_url"),
        (lambda: trade(base_url="http://service.example"), "invalid_base_url"),
        (lambda: MarketClient(base_url=f"{URL}/v2"), "invalid_base_url"),
        (lambda: trade(base_url="https://[::1]:x"), "invalid_base_url"),
        (lambda: trade(api_key=""), "invalid_api_key"),
        (lambda: trade(api_key="é"), "invalid_api_key"),
        (lambda: trade(api_key="k" * 513), "invalid_api_key"),
        (lambda: trade(api_key="0x" + "ab" * 32), "invalid_api_key"),
        (lambda: trade(deadline=0), "invalid_setting"),
        (lambda: Timeout(connect=0), "invalid_setting"),
        (lambda: RetryPolicy(max_retries=6), "invalid_setting"),
        (lambda: Budget(total="much"), "invalid_argument"),
        (lambda: trade().agents.get(".."), "invalid_argument"),
        (lambda: LocalSigner.from_key("0x12"), "invalid_private_key"),
        (lambda: LocalSigner.from_env("NO_SUCH_VARIABLE"), "invalid_private_key"),
        (lambda: LocalSigner.from_callable(lambda: "none").address, "invalid_private_key"),
        (lambda: trade().wallets.connect_with(OddSigner(), chain_id=8453, label="l"), "invalid_signer"),
        (closed_client, "invalid_state"),
    ],
)
def test_use_and_settings(use: Callable[[], object], code: str) -> None:
    with pytest.raises(TradeError) as caught:
        use()
    assert caught.value.code == code, caught.value


def test_keystores(tmp_path: Path) -> None:
    path = tmp_path / "wallet.json"
    create_keystore(path, "password", KEY, work=2)
    good = json.loads(path.read_text())

    def code(use: Callable[[], object]) -> str:
        with pytest.raises(TradeError) as caught:
            use()
        return caught.value.code

    def of(**changes: Any) -> str:
        path.write_text(json.dumps({name: value for name, value in (good | changes).items() if value is not None}))
        return code(lambda: keystore_address(path))

    assert code(lambda: create_keystore(path, "password", work=2)) == "keystore_exists"
    assert code(lambda: LocalSigner.from_keystore(path, "another")) == "wrong_password"
    assert code(lambda: keystore_address(tmp_path / "none.json")) == "invalid_keystore"
    assert code(lambda: keystore_address(tmp_path)) == "invalid_keystore"
    assert of(version=2) == "invalid_keystore"
    assert of(crypto={}) == "keystore_damaged"
    assert of(address="0x12") == "keystore_damaged"
    assert of(address=None) == "keystore_without_address"
    if os.name != "nt":
        path.chmod(0o644)
        assert of() == "keystore_exposed"


@each_of(
    ("reason", "code"),
    [
        ("insufficient_funds", "insufficient_funds"),
        ("invalid_exact_evm_insufficient_balance", "insufficient_funds"),
        (f"{EXACT}_signature", "signature_rejected"),
        ("invalid_exact_evm_signature", "signature_rejected"),
        (f"{EXACT}_undeployed_smart_wallet", "signature_rejected"),
        ("eip6492_factory_not_allowed", "signature_rejected"),
        (f"{EXACT}_authorization_valid_before", "validity_rejected"),
        (f"{EXACT}_authorization_valid_after", "validity_rejected"),
        (f"{EXACT}_recipient_mismatch", "payment_rejected"),
        ("No matching payment requirements", "payment_rejected"),
        ("a word of tomorrow", "payment_rejected"),
    ],
)
def test_what_a_service_calls_a_rejection_stays_beside_the_code(reason: str, code: str) -> None:
    one = payment(**REJECTED)
    error = outcome_error(one, Report(REJECTION, reason))
    assert error is not None
    assert (error.code, error.reason, error.payment) == (code, reason, one)
    assert str(error).startswith(f"{code}: the service rejected a payment of ${one.amount_usd.normalize():f}")
    assert error.message.endswith(f": {reason}")
    is_undeployed = reason in ("eip6492_factory_not_allowed", f"{EXACT}_undeployed_smart_wallet")
    assert (f"does not deploy {one.payer}" in error.hint) is is_undeployed
    assert error.hint
