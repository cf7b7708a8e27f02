"""Queries nodes of Base: whether a payment was taken, what the wallet has, and what code it has."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from .._http import settings
from .._http.arguments import wrong_setting
from .._http.log_events import event
from .._http.request import Request
from .._http.response import decode_raw
from .._http.retry import Operation, RetryPolicy
from .._http.settings import Timeout
from .._http.wire_logging import redacted
from .._system.clock import Clock, SystemClock
from .._values.frames import hides_locals
from .._values.text import real
from ..errors import APIError
from ..payments.effects import Verified
from ..payments.protocol import signature_of
from ..payments.results import AccountCode, ChainVerdict
from ..payments.signing.contract_wallets import inner_signature, is_wrapped
from ..payments.signing.secp256k1 import checked_address
from ..payments.signing.signer import authorization_signable, digest_of
from ..payments.witness import (
    NodeFailedError,
    agreed,
    examine,
    examine_balance,
    examine_code,
    examine_signature,
)
from .base_client import AsyncConnected, open_sender
from .session import AsyncSession

if TYPE_CHECKING:
    from .._values.http import RawResponse
    from .._values.payment import Payment
    from .httpx_sender import AsyncHttpClient


T = TypeVar("T")

_WHOLE = "pass the whole address, such as signer.address"


class AsyncChainWitness(AsyncConnected):
    """Asks your own nodes of Base whether a payment was taken: `MarketClient(witness=…)`.

    A client asks it about payments with an unknown outcome, when it reconciles or resumes them, and before held money
    makes a budget refuse a call. It asks for the wallet's balance once before its first signature, and while the
    service says that the wallet has too little. It asks whether a smart contract wallet accepts its signature. Other
    calls ask nothing. A node that cannot be reached, is slow, disagrees or gives an invalid response decides nothing.

    Finalized blocks are about 20 minutes old, so an unpaid payment is known to be unpaid that much later. It belongs to
    one event loop.

    Args:
        rpc_url: the URL of a node (JSON-RPC over https). A key in its path or query is never shown.
        more_urls: further nodes. All must agree.
        timeout: seconds that one response of a node may take.
        clock: Clock to use (tests pass their own).
        http_client: an httpx or httpx2 client to send with; it is never closed or changed.

    Raises:
        ConfigError: a URL cannot be used: it is not https (except for loopback), or not a URL.

    Example:
        ```python
        async with AsyncChainWitness("https://mainnet.base.org") as witness:
            market = AsyncMarketClient(witness=witness)
        ```
    """

    @hides_locals
    def __init__(
        self,
        rpc_url: str,
        /,
        *more_urls: str,
        timeout: float = 10.0,
        clock: Clock | None = None,
        http_client: AsyncHttpClient | None = None,
    ) -> None:
        settings.http_client(http_client, "AsyncClient")
        settings.instance("clock", clock, Clock, "a Clock with now, monotonic, sleep and sleep_async")
        if not 0 < real(timeout) < math.inf:
            raise wrong_setting("timeout", "more than 0 seconds, and finite", timeout)
        hosts = [settings.rpc_url(url) for url in (rpc_url, *more_urls)]
        clock = clock or SystemClock()
        self._nodes = [  # the session's URL has only the host; the sender has the path
            AsyncSession(
                base_url=host,
                key=None,
                sender=open_sender(host, http_client, secret_path=path),
                clock=clock,
                timeout=Timeout.of(timeout),
                policy=RetryPolicy(),
                deadline=real(timeout),
                throttle=False,
                secrets=path.parts,
            )
            for host, path in hosts
        ]

    async def check(self, payment: Payment) -> ChainVerdict:
        """Ask the nodes whether a payment was taken: two requests to each. The payment in the ledger does not change.

        The verdict is `undecided` if a node fails, if its last finalized block is older than the payment's validity, or
        if the nodes disagree; its `reason` says which.

        Raises:
            TradeError: this witness is closed.
        """
        (verdict,) = await self._check_all([payment], math.inf)
        return verdict

    async def _check_all(self, payments: Sequence[Payment], seconds: float) -> list[ChainVerdict]:
        """Check many payments, eight in a request; after `seconds` seconds, no more requests are sent."""
        clock = self._nodes[0].clock
        give_up = clock.monotonic() + seconds
        verdicts: dict[str, ChainVerdict] = {}
        for node in self._nodes:
            still_open = [one for one in payments if one.id not in verdicts or verdicts[one.id].paid is not None]
            found = await _answered(node, examine(still_open), give_up) if still_open else []
            for one, verdict in zip(still_open, found, strict=True):
                verdict = replace(verdict, reason=redacted(verdict.reason, node.secrets))
                verdicts[one.id] = agreed(verdicts.get(one.id), _host(node), verdict)
        return [verdicts[one.id] for one in payments]

    async def balance(self, address: str) -> int | None:
        """How much USDC an address has now, in micro-dollars: the largest value of all nodes. None if no node answered.

        Raises:
            InvalidArgumentError: it is not an address.
            TradeError: this witness is closed.
        """
        return await self._balance(checked_address("a wallet", address, _WHOLE), math.inf)

    async def _balance(self, address: str, seconds: float) -> int | None:
        """As `balance`; after `seconds` seconds, no more requests are sent."""
        return max(await self._answers(partial(examine_balance, address), seconds), default=None)

    async def code(self, address: str) -> AccountCode | None:
        """What code an address has: that of a smart contract wallet, or of a delegated key. `str` explains it.

        None if no node answered, or if they disagree.

        Raises:
            InvalidArgumentError: it is not an address.
            TradeError: this witness is closed.
        """
        address = checked_address("a wallet", address, _WHOLE)
        found = set(await self._answers(partial(examine_code, address), math.inf))
        return found.pop() if len(found) == 1 else None

    async def _answers(self, ask: Callable[[], Generator[bytes, bytes, T]], seconds: float) -> list[T]:
        """The results of the nodes that answered; after `seconds` seconds, no more requests are sent."""
        give_up, found = self._nodes[0].clock.monotonic() + seconds, list[T]()
        for node in self._nodes:
            try:
                found.append(await _answered(node, ask(), give_up))
            except NodeFailedError as error:
                _log_failure(node, error)
        return found

    async def _verified(self, payment: Payment, seconds: float) -> Verified:
        """Ask whether the contract wallet accepts its signature, if it has code. A yes of one node is enough."""
        give_up, signature = self._nodes[0].clock.monotonic() + seconds, signature_of(payment)
        is_asked = is_refused = has_none = False
        for node in map(copy.copy, self._nodes):
            node.secrets += (inner_signature(signature).hex(),)  # keeps it out of logs
            try:
                if (await _answered(node, examine_code(payment.payer), give_up)).kind == "none":
                    has_none = True
                    continue
                is_asked = True
                digest = digest_of(authorization_signable(payment))
                if await _answered(node, examine_signature(payment.payer, digest, signature), give_up):
                    return Verified(is_asked=True)
                is_refused = True
            except NodeFailedError as error:
                _log_failure(node, NodeFailedError(payment.hidden_in(str(error))))
        if is_refused:
            return Verified(is_asked, f"the wallet {payment.payer} does not accept its signature (isValidSignature)")
        if has_none and not (is_asked or is_wrapped(signature)):
            problem = "is not deployed, and its signature does not have the call that deploys it (ERC-6492)"
            return Verified(is_asked, f"the wallet {payment.payer} {problem}")
        return Verified(is_asked)

    async def aclose(self) -> None:
        """Close the connections. A given `http_client` stays open."""
        for node in self._nodes:
            await node.aclose()

    def __repr__(self) -> str:
        hosts = map(_host, vars(self).get("_nodes", ()))
        return f"<{type(self).__name__} {', '.join(hosts) or 'that could not be made'}>"


def _log_failure(node: AsyncSession, error: NodeFailedError) -> None:
    text = "a node gave no answer about the wallet: %(reason)s"
    event("wallet_unknown", text, level=logging.DEBUG, reason=redacted(str(error), node.secrets))


def _host(node: AsyncSession) -> str:
    return node.base_url.partition("://")[2]


async def _answered(node: AsyncSession, questions: Generator[bytes, bytes, T], give_up: float) -> T:
    """The results of one node, until a monotonic time."""
    batch = next(questions)
    while True:
        request: Request[RawResponse] = Request("POST", "", decode_raw, body=batch, operation=Operation.QUERY)
        failure, content = "", b""
        try:
            response = await node.exchange(request, min(give_up, node.clock.monotonic() + node.deadline))
            content = response.content
            if response.status != 200:
                failure = f"it responded with status {response.status}"
        except APIError as error:
            failure = error.headline
        try:
            batch = questions.throw(NodeFailedError(failure)) if failure else questions.send(content)
        except StopIteration as end:
            found: T = end.value
            return found
