"""Wallets."""

from __future__ import annotations

from typing import ClassVar

from ..._http.arguments import argument_called, chain, identifier, required_text
from ..._http.request import CreateLookup, Listing, endpoint, model_request
from ...errors import InvalidSignatureError
from ...models.wallets import Wallet, WalletBalance
from ...payments.signing.secp256k1 import checksummed
from ...payments.signing.signer import Asked, Signer, checked_signer, sign_message, wallet_message
from ..pagination import AsyncPager
from ..session import AsyncResource
from ..signing import ask_signer


class AsyncWalletsResource(AsyncResource):
    """`client.wallets`: wallets that agents trade with."""

    _not_in_the_api: ClassVar = dict.fromkeys(
        ("delete", "disconnect", "remove"),
        ("a wallet cannot be removed", "see what is connected: client.wallets.list()"),
    )

    @argument_called("chain_id", not_="chain")
    async def connect(self, *, address: str, chain_id: int, label: str, signature: str) -> Wallet:
        """Connect a wallet with a signature made elsewhere (`POST /v1/wallets`).

        If the response is lost, the wallets are listed before a retry, to check whether the wallet was connected.

        Args:
            address: the wallet's address.
            chain_id: 8453 (Base) or 56 (BNB Chain).
            label: a display name.
            signature: the wallet's signature of the text that the service requires, such as `wallet_message` returns.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            InvalidSignatureError: the signature is invalid, or made by another address.
            ConflictError: the wallet is connected already.
            AmbiguousOutcomeError: it may have been connected.
        """
        chain_id = chain("chain_id", chain_id)
        body = {
            "address": identifier("address", address),
            "chain_id": chain_id,
            "label": required_text("label", label),
            "signature": required_text("signature", signature),
        }
        lookup: CreateLookup[Wallet] = CreateLookup(
            Listing(endpoint("wallets"), Wallet, {"chain_id": chain_id}),
            expected=(address.lower(), chain_id),
            identity=lambda wallet: (wallet.address.lower(), wallet.chain_id),
        )
        return await self._session.call(model_request(Wallet, "POST", endpoint("wallets"), body=body, lookup=lookup))

    @argument_called("chain_id", not_="chain")
    async def connect_with(
        self, signer: Signer, *, label: str, chain_id: int = 8453, message: str | None = None
    ) -> Wallet:
        """Sign the text that proves ownership of a wallet, and connect it (`POST /v1/wallets`).

        Args:
            signer: signs the text (EIP-191): a `LocalSigner`, an account of eth-account, or anything else with
                `sign_digest`, which `AsyncTradeClient` calls in a thread, and awaits if it can be.
            label: a display name.
            chain_id: 8453 (Base) or 56 (BNB Chain).
            message: the text to sign, which the dashboard shows (default: `wallet_message(address, chain_id)`, as the
                service documents none).

        Raises:
            InvalidSignatureError: the service wants another text; `error.signed` is the one that was signed.
            APIError: the same errors as `connect`.
        """
        chain_id = chain("chain_id", chain_id)
        required_text("label", label)
        if message is not None:
            required_text("message", message)

        def sign() -> Asked[tuple[str, str, str]]:
            address = checksummed(checked_signer(signer).address)
            text = message or wallet_message(address, chain_id)
            return address, text, (yield from sign_message(signer, text))

        address, text, signature = await ask_signer(sign())
        try:
            return await self.connect(address=address, chain_id=chain_id, label=label, signature=signature)
        except InvalidSignatureError as error:
            error._set_signed(text, is_default=message is None)
            raise

    @argument_called("chain_id", not_="chain")
    def list(
        self,
        *,
        chain_id: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        max_items: int | None = None,
    ) -> AsyncPager[Wallet]:
        """All connected wallets, page by page (`GET /v1/wallets`).

        Args:
            chain_id: only wallets on this chain.
            limit: items per page, 1 to 100 (default 100).
            cursor: where to start: a page's `next_cursor`.
            max_items: at most this many items in total.
        """
        wanted = None if chain_id is None else chain("chain_id", chain_id)
        listing = Listing(endpoint("wallets"), Wallet, {"chain_id": wanted})
        return AsyncPager(self._session, listing, limit=limit, cursor=cursor, max_items=max_items)

    async def balance(self, wallet_id: str) -> WalletBalance:
        """A wallet's balance, in USD and in tokens (`GET /v1/wallets/{wallet_id}/balance`).

        Raises:
            NotFoundError: the id is unknown, or the wallet is not yours.
        """
        path = endpoint("wallets", identifier("wallet_id", wallet_id), "balance")
        return await self._session.call(model_request(WalletBalance, "GET", path))
