"""Asks signers, whose methods block. The twin in `_async` is also written by hand."""

from ..payments.signing.signer import ask_signer as ask_signer
