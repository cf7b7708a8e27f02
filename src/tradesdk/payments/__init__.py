"""Payments by x402: guards, budgets, the ledger, signing.

For programs: what payments are made and proven of. The names that every buyer needs are in `tradesdk`.
"""

from .._exports import exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._values.details import BudgetDetails as BudgetDetails
    from .._values.details import PriceDetails as PriceDetails
    from .._values.details import RecipientDetails as RecipientDetails
    from .._values.details import TokenDetails as TokenDetails
    from .._values.details import WalletDetails as WalletDetails
    from .._values.payment import PaymentProof as PaymentProof
    from .._values.payment import ReasonCode as ReasonCode
    from .._values.payment import SignedHeader as SignedHeader
    from .results import AccountCode as AccountCode
    from .results import ChainVerdict as ChainVerdict
    from .signing.signer import DigestSigner as DigestSigner
    from .signing.signer import TypedDataSigner as TypedDataSigner

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = exports(
        __name__,
        {
            "_values.details": "BudgetDetails PriceDetails RecipientDetails TokenDetails WalletDetails",
            "_values.payment": "PaymentProof ReasonCode SignedHeader",
            "payments.results": "AccountCode ChainVerdict",
            "payments.signing.signer": "DigestSigner TypedDataSigner",
        },
    )
