"""Checkout: the client, the question before money is spent, and the message afterwards."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk_cli.config.credentials import refuse_http
from tradesdk_cli.errors import ConfigProblem, Declined, UsageProblem
from tradesdk_cli.interrupts import StopRequested, on_signal
from tradesdk_cli.purchase.calls import MOST, Call
from tradesdk_cli.purchase.records import left_over
from tradesdk_cli.text import counted, dollars, one_line, plain_dollars, usd
from tradesdk_cli.wallet import Wallet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tradesdk import MarketClient, MarketResult, Payment
    from tradesdk_cli.session import Target

_LONGEST_AMOUNT = 40
NO_SERVICE = "https://nowhere.invalid"
"""The service's address where nothing is sent."""


@dataclass(frozen=True)
class Terms:
    """How something is to be bought.

    Attributes:
        max_price: dollars that it may cost, as they were typed.
        dry_run: say what would be signed instead.
        purchase: the name of the purchase.
        wallet: the keystore that --wallet names.
        receipt: print payment and receipt beside the data.
        send_api_key: send the API key as well.
        batches: buy more tokens than one request takes, one batch after another.
        job: the name under which batches are kept.
    """

    max_price: str | None = None
    dry_run: bool = False
    purchase: str | None = None
    wallet: Path | None = None
    receipt: bool = False
    send_api_key: bool = False
    batches: bool = False
    job: str | None = None

    def check(self, call: Call) -> None:
        """Refuses what does not go together.

        Raises:
            UsageProblem: it says what to do instead.
        """
        if self.max_price is not None:
            amount_of("--max-price", self.max_price)
        if self.job is not None and not self.batches:
            raise UsageProblem("--job belongs to --batches", "it names the batches, so that they can be continued")
        if self.batches and self.purchase is not None:
            raise UsageProblem("--purchase and --batches exclude each other", "--job NAME gives every batch a name")
        if len(call.tokens) > MOST and not self.batches:
            raise UsageProblem(
                f"{len(call.tokens)} tokens are more than the {MOST} that one request takes",
                f"add --batches to buy them {MOST} at a time, in {counted(-(-len(call.tokens) // MOST), 'payments')}",
            )


def amount_of(option: str, text: str) -> str:
    """An amount in dollars as it was typed, when the SDK can read it.

    Raises:
        UsageProblem: a sign, an exponent, too many decimals.
    """
    from tradesdk import Budget, InvalidArgumentError

    try:
        Budget(per_call=text)
    except InvalidArgumentError:
        given = one_line(text) if text.strip() else repr(text)
        given = given if len(given) <= _LONGEST_AMOUNT else "that"  # a key may have been pasted there
        said = f"{option}: {given} is not an amount in dollars: write digits, with at most six decimals"
        hint = f"without a dollar sign, which a shell takes for a variable: {option} 0.10"
        raise UsageProblem(said, hint) from None
    return text


def market_client(
    run: Any,
    wallet: Wallet | None = None,
    *,
    send_api_key: bool = False,
    at: str | None = None,
    witness: bool = False,
) -> MarketClient:
    """The SDK's client for market data, on the ledger of this run; closed at its end.

    Args:
        run: the session.
        wallet: who signs; None where nothing is.
        send_api_key: send the API key of the account as well.
        at: the service's address, where it is known already.
        witness: in a mock world, ask a node of its chain as well. Elsewhere TRADE_RPC_URL says which one is asked.

    Raises:
        ConfigProblem: there is no address.
    """
    from tradesdk import MarketClient
    from tradesdk_cli.retries import OneMoreTry

    settings = run.settings
    http = now = node = None
    if settings.mock:
        service = run.mock.service
        at, http, now = at or service.market_url, run.mock.http_client(), service.clock.now
        run.closing(http.close)
        if witness:
            from tradesdk import ChainWitness  # loaded here: buying needs none

            node = ChainWitness(service.rpc_url, http_client=http)
    at = at or settings.market_url
    if at is None:
        raise ConfigProblem(
            "no address for market data: set TRADE_MARKET_BASE_URL or TRADE_BASE_URL",
            "try it without an account or a network: trade --mock market prices ETH",
        )
    if not settings.mock:
        refuse_http(at, "TRADE_MARKET_BASE_URL", "the address of market data", "a payment")
    key = run.api_key(at, market=True) if send_api_key else None
    if send_api_key and key is None:
        raise ConfigProblem("no API key to send: trade login keeps one", "or leave --send-api-key out")
    client: MarketClient
    client = MarketClient(
        signer=wallet if wallet is not None else Wallet(NOBODY, _no_key) if settings.mock else None,
        ledger=run.ledger,
        base_url=at,
        send_api_key=send_api_key,
        api_key=None if key is None else key[0],
        timeout=settings.timeout,
        max_retries=settings.retries,
        retry=OneMoreTry(reached=lambda: client.rate_limit is not None),
        clock=run.speaking_clock(lambda: client.rate_limit, now),
        witness=node,
        http_client=http,
    )
    run.closing(client.close)
    return client


NOBODY = "0x" + "0" * 40


def _no_key() -> Any:
    raise ConfigProblem("nothing is signed by this command", None)


class Checkout:
    """One command that buys: its client, its wallet, and the talk about money."""

    def __init__(self, run: Any, call: Call, terms: Terms) -> None:
        terms.check(call)
        self.run = run
        self.call = call
        self.terms = terms
        self.target: Target = run.target(market=True)
        """Where it is bought."""
        self.told: StopRequested | None = None
        """The first signal to stop, where it did not stop at once: something was being paid, or was printed already."""
        self.is_printed = False
        """Everything that was bought is written, and only what it cost is still to be said."""
        self._began = run.now()
        self.wallet = run.wallet(terms.wallet)
        self.client = market_client(run, self.wallet, send_api_key=terms.send_api_key)
        if run.settings.verbose > 1:
            run.out.note(f"market data comes from {self.target.text}, payments are written to {run.ledger_file}")

    def buy(self) -> MarketResult[Any]:
        """Buys it in one request.

        Raises:
            Declined: the person said no.
        """
        name, given = self.call.method, self.call.given
        quote = getattr(self.client.quote, name)(**given)
        most = self.agreed(quote.price, quote.spending.budget.is_set, self.call.told())
        method = getattr(self.client, name)
        found: MarketResult[Any] = self.signing(lambda: method(**given, max_price=most, purchase=self.terms.purchase))
        return found

    def in_batches(self, most: str | None = None) -> Any:
        """The batches that it is bought in, which may cost `most` dollars together. Nothing is bought yet."""
        given = self.call.given
        return getattr(self.client.batches, self.call.method)(**given, job=self.terms.job, max_total=most)

    def agreed(self, price: Any, has_budget: bool, what: str) -> str | None:
        """What it may cost: what was said, or, without a budget, what somebody at the terminal says yes to."""
        from tradesdk_cli.confirm import ask, can_ask

        most = self.terms.max_price
        if self.wallet is None:
            return most
        asking = most is None and not has_budget and can_ask()
        allowed = most is not None or has_budget
        if asking or (allowed and not self.run.out.machine_notes):
            from tradesdk_cli.confirm import say_target

            say_target(self.run.out, self.target)
            self.run.out.note(f"{what}, wallet {self.wallet.address}")
        if not asking:
            return most
        if not ask(f"{what} costs {dollars(price)}. Pay?"):
            raise Declined("nothing was paid")
        return plain_dollars(price)

    def signing(self, buy: Callable[[], Any]) -> Any:
        """Calls `buy`, with the wallet's own words for why it could not sign.

        A password that takes long to type may leave no time for the payment that it was for: nothing has been signed
        then, and with the wallet open another one takes no time. Ctrl-C does not lose what is being paid for: it ends
        the command afterwards, as `told`.
        """
        with on_signal(self._finishes_first()):
            return self._signing(buy)

    def _finishes_first(self) -> Callable[[int], bool]:
        """What Ctrl-C does: once something is signed it may be taken, so the answer to it is waited for."""
        before = 0 if self.wallet is None else self.wallet.signatures

        def hear(number: int) -> bool:
            told = StopRequested(number)
            if self.told is not None or self.wallet is None or self.wallet.signatures == before:
                raise told
            self.told = told
            say_waiting(self.run, number)
            return True

        return hear

    def _signing(self, buy: Callable[[], Any]) -> Any:
        from tradesdk import PaymentRefusedError

        for _ in range(2):
            was_open = self.wallet is None or self.wallet.opened
            try:
                return buy()
            except KeyboardInterrupt:
                self._say_what_was_under_way()
                raise
            except PaymentRefusedError as refused:
                if refused.code == "signer_failed" and self.wallet is not None and self.wallet.failure is not None:
                    raise self.wallet.failure from None
                if refused.code != "signer_too_slow" or was_open:
                    raise
        return buy()

    def _say_what_was_under_way(self) -> None:
        from tradesdk import LedgerError, PaymentStage

        try:
            stages = (PaymentStage.SENT, PaymentStage.ANSWERED)
            # Not always the newest: an older one may be signed again.
            last = max(self.run.ledger.history(stages=stages), key=lambda one: one.updated, default=None)
            # What was given already is not among those that `find` still keeps for the next command.
            payment = None if last is None else self.run.ledger.find(last.fingerprint, now=self.run.now())
        except LedgerError:
            return
        if payment is None or payment.updated < self._began or payment.id in (self.run.ledger.unprinted or {}):
            return
        resume = f"{self.run.settings.program} pay resume {payment.id}"
        if payment.stage is PaymentStage.ANSWERED:
            told = f"was paid, and the answer is kept: the same command prints it for 60 s, {resume} at any time"
        else:
            told = f"was being paid: {resume}, or the same command, continues it"
        self.run.out.note(f"{dollars(payment.amount_usd)} {told}")

    def hear(self, number: int) -> bool:
        """A signal while nothing is being signed: it stops the command at once, unless it is about to end anyway."""
        told = StopRequested(number)
        if self.told is not None or not self.is_printed:
            raise told
        self.told = told
        return True

    # What is said afterwards

    def say_unprinted(self, results: Iterable[MarketResult[Any]]) -> None:
        """After an interruption: says how what was paid for, and is not printed, is printed without paying again."""
        unprinted = self.run.ledger.unprinted or {}
        payments = [one.payment for one in results if one.payment is not None and one.payment.id in unprinted]
        if payments:
            total = sum((payment.amount_usd for payment in payments), usd(0))
            what, it = ("the answer is", "it") if len(payments) == 1 else ("the answers are", "them")
            span = "" if all(payment.purchase is not None for payment in payments) else " for 60 s"
            resume = ", ".join(f"{self.run.settings.program} pay resume {payment.id}" for payment in payments)
            self.run.out.note(
                f"{dollars(total)} was paid, and {what} kept: the same command prints {it}{span}, {resume} at any time"
            )

    def account_for(self, results: list[MarketResult[Any]]) -> None:
        """Says on stderr what was paid, and what is left."""
        for result in results:
            for warning in result.warnings:
                self.run.out.note(f"warning: {warning}")
        for result in results:
            if result.again:
                tell_before(self.run, result)
        payments = [result.payment for result in results if result.payment is not None and not result.again]
        if payments:
            tell(self.run, self.client, payments)
        elif not any(result.again for result in results) and results:
            self.run.out.note("this cost nothing")


def say_waiting(run: Any, number: int) -> None:
    """Says why signal `number` does not end the command yet."""
    name = "Ctrl-C" if number == signal.SIGINT else "the same signal"
    run.out.note(f"a payment is under way, so its answer is waited for; {name} again stops at once")


def tell_before(run: Any, result: MarketResult[Any]) -> None:
    """Says on stderr that nothing was paid now, and how old the answer is."""
    payment, answered = result.payment, result.answered_at
    if payment is None or answered is None:
        return
    paid = "was paid" if payment.charged is True else "may have been paid"
    text = (
        f"nothing was paid now: {dollars(payment.amount_usd)} {paid} before, payment {payment.id}; "
        f"answered {answered:%Y-%m-%d %H:%M:%S} UTC"
    )
    if run.out.machine_notes:
        run.out.note(text, paid_usd=plain_dollars(usd(0)), payments=[], answered_at=int(answered.timestamp()))
    else:
        run.out.note(text)


def tell(run: Any, client: MarketClient, payments: list[Payment]) -> None:
    """Says on stderr what was paid by whom, and what the budgets leave."""
    first = payments[0]
    total = sum((payment.amount_usd for payment in payments), usd(0))
    paid = "paid" if all(payment.charged is True for payment in payments) else "may have paid"
    left = left_over(client.payments.spending())
    after = f"; {left}" if left else ""
    if len(payments) > 1:
        text = f"{paid} {dollars(total)} from {first.payer} in {len(payments)} payments{after}"
    else:
        receipt = first.receipt
        transaction = f", tx {one_line(receipt.transaction, 100)}" if receipt and receipt.transaction else ""
        text = f"{paid} {dollars(total)} from {first.payer}{transaction}, payment {first.id}{after}"
    if not run.out.machine_notes:
        run.out.note(text)
        return
    run.out.note(
        text,
        target=run.target(market=True).fields,
        paid_usd=plain_dollars(total),
        payments=[payment.id for payment in payments],
        transactions=[payment.receipt.transaction for payment in payments if payment.receipt is not None],
    )
