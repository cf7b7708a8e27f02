"""The errors about payments. They are part of the tree that `tradesdk.errors` draws."""

from __future__ import annotations

from .._values.text import printable
from ..errors import TradeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._values.http import RawResponse
    from .._values.payment import Charged, Payment


class PaymentError(TradeError):
    """Something about a payment for market data.

    Attributes:
        code: a short, stable name of the reason, such as `over_price` or `insufficient_funds`.
        hint: what to do next; may be empty. Tracebacks show it below the error.
        payment: the payment as the ledger knows it; None when there is none.
        response: the answer that led to this, its bytes included; None when there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str = "",
        payment: Payment | None = None,
        response: RawResponse | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.payment = payment
        self.response = response
        if hint:
            self.add_note(printable(f"hint: {hint}", 1200))

    @property
    def charged(self) -> Charged:
        """Whether money was taken: True, False or "unknown"."""
        return False if self.payment is None else self.payment.charged

    def __str__(self) -> str:
        text = f"{self.code}: {self.message}"
        return printable(f"{text} ({self.payment.told()})" if self.payment is not None else text, 1200)


class PaymentRefusedError(PaymentError):
    """A guard or a budget of yours said no. Nothing was signed for this call."""


class PaymentRejectedError(PaymentError):
    """The service refused the payment before it took anything; `code` is its reason.

    The authorization could still be used by whoever has it, so its amount stays reserved until it has expired.
    """


class PaymentOutcomeUnknownError(PaymentError):
    """A payment was handed over, and nobody knows whether it was taken. Do not pay again blindly.

    `client.payments.resume(error.payment.id)` hands over the same payment once more, which cannot be taken twice.
    """


class PaymentUndeliveredError(PaymentError):
    """The payment was taken, and what it bought did not arrive in a usable form. `response` is what did."""


class LedgerError(PaymentError):
    """The ledger cannot be read or written: no space, locked, read-only, damaged, of another version.

    Without a ledger nothing is paid. When a payment had been handed over already, `payment` names it.
    """
