"""The data of a transaction that cancels the nonce of a payment, so that nobody can take it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..._values.payment import PaymentStage
from ...errors import PaymentRefusedError
from ..messages import already_known, asked
from .secp256k1 import checksummed, keccak256
from .signer import ADDRESS_PAD, DOMAIN_SEPARATOR, Signable, from_hex, signed, usdc_data

if TYPE_CHECKING:
    from ..._values.payment import Payment
    from .signer import Signer

TYPE_HASH = bytes.fromhex("158b0a9edf7a828aad02f63cd515c68ef2f50ba807396f6d12842833a1597429")
"""The hash of `CancelAuthorization(address authorizer,bytes32 nonce)`."""
CALL = "0xb7b72899"
"""The selector of `cancelAuthorization(address,bytes32,bytes)`."""


def signed_cancellation(payment: Payment, signer: Signer, address: str) -> str:
    """The calldata that cancels the nonce of a payment, signed. `address` is the signer's."""
    if payment.stage is PaymentStage.RESERVED:
        text = f"payment {payment.id} was never signed, so there is nothing to cancel"
        raise PaymentRefusedError(text, code="not_submitted", payment=payment)
    if payment.paid or payment.stage is PaymentStage.ANSWERED:
        raise already_known(payment)
    if address.lower() != payment.payer.lower():
        raise PaymentRefusedError(
            f"payment {payment.id} is from {payment.payer}, and the signer is {address}",
            code="no_signer",
            hint="use the signer of that address",
            payment=payment,
        )
    payer, nonce = payment.payer, payment.nonce
    fields = [("authorizer", "address", checksummed(payer)), ("nonce", "bytes32", nonce)]
    typed = partial(usdc_data, "CancelAuthorization", *fields)
    return calldata(payer, nonce, asked(lambda: signed(signer, payer, signable(payer, nonce), typed)))


def signable(payer: str, nonce: str) -> Signable:
    return b"\x01", DOMAIN_SEPARATOR, keccak256(TYPE_HASH + ADDRESS_PAD + from_hex(payer, 20) + from_hex(nonce, 32))


def calldata(payer: str, nonce: str, signature: bytes) -> str:
    words = payer[2:].lower().rjust(64, "0") + nonce[2:].lower() + f"{96:064x}" + f"{len(signature):064x}"
    return CALL + words + signature.hex().ljust(-(-len(signature) // 32) * 64, "0")
