"""Checks of what pays: the wallet, whose password is not asked for, and the ledger, which is only read."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

from tradesdk_cli.doctor.findings import Finding
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tradesdk_cli.session import Session


def wallet(run: Session, environ: Mapping[str, str]) -> list[Finding]:
    """Where the key that pays is, and its address, as far as that is told without a password."""
    from tradesdk import ConfigError, LocalSigner, keystore_address
    from tradesdk_cli.explain import problem_of
    from tradesdk_cli.purchase.wallet import KEY, KEYSTORE, keystore_path

    if run.settings.mock:
        return [Finding("wallet", "ok", f"play money of the mock world {run.settings.world}", None, {"source": "mock"})]
    if environ.get(KEY):
        try:
            address = LocalSigner.from_env(KEY).address
        except ConfigError as error:
            told = "a private key is 64 hexadecimal digits; a keystore is safer: trade pay key import"
            return [Finding("wallet", "problem", one_line(error.message), told, {"source": KEY}, config=True)]
        said = f"{address}, from {KEY}"
        return [Finding("wallet", "ok", said, None, {"source": KEY, "address": address})]
    path = keystore_path(run.settings, None)
    facts: dict[str, Any] = {"source": str(path)}
    if not environ.get(KEYSTORE) and not path.exists():
        return [Finding("wallet", "skipped", "there is none", "only needed to buy market data: trade pay key new")]
    if not path.exists():
        make = f"correct {KEYSTORE}, or make one there: trade pay key new"
        return [Finding("wallet", "problem", f"{KEYSTORE} names {path}, which is not there", make, facts, config=True)]
    try:
        address = keystore_address(path)
    except ConfigError as error:
        if error.code == "keystore_without_address":
            said = f"{path} can be read; it does not say its address"
            return [Finding("wallet", "ok", said, None, facts)]
        hint = problem_of(error, run.settings.program).hint
        return [Finding("wallet", "problem", one_line(error.message), hint, facts, config=True)]
    facts |= {"address": address, "mode": f"{stat.S_IMODE(path.stat().st_mode):04o}"}
    return [Finding("wallet", "ok", f"{address}, in {path}", None, facts)]


def ledger(run: Session) -> list[Finding]:
    """Whether it is whole, what is in doubt, and what the budgets leave."""
    from tradesdk import Budget, LedgerError, PaymentState
    from tradesdk_cli.purchase.checkout import IN_DOUBT
    from tradesdk_cli.purchase.records import LIMITS, left_over, maybe_dollars, spending_record

    path = _ledger_file(run)
    budget = Budget.from_environment()
    if not path.exists():
        said = "nothing was bought yet" + ("" if budget.is_set else "; no budget is set")
        hint = None if budget.is_set else f"{run.settings.program} pay budget set --per-day 5"
        return [Finding("ledger", "skipped", said, hint, {"file": str(path)})]
    facts: dict[str, Any] = {"file": str(path)}
    aside = f"move {path} away only when nothing in it is in doubt: it knows what was paid"
    try:
        run.ledger.check()
        doubtful = run.ledger.history(states=[PaymentState(state) for state in IN_DOUBT])
        spending = run.ledger.spending(budget, now=run.now())
        record = spending_record(spending)
    except LedgerError as error:
        return [Finding("ledger", "problem", one_line(error.message), error.hint or aside, facts)]
    facts |= {
        "in_doubt": [payment.id for payment in doubtful],
        **{name: record[name] for name in record if name.startswith(("spent_", "held_"))},
        "budget_usd": {name: maybe_dollars(getattr(spending.budget, name)) for name in LIMITS},
    }
    left = left_over(spending)
    money = left or ("a budget for one purchase only" if spending.budget.is_set else "no budget is set")
    if doubtful:
        some = "1 payment is" if len(doubtful) == 1 else f"{len(doubtful)} payments are"
        said = f"whole; {some} in doubt; {money}"
        return [Finding("ledger", "warning", said, f"{run.settings.program} pay reconcile", facts)]
    hint = None if spending.budget.is_set else f"{run.settings.program} pay budget set --per-day 5"
    return [Finding("ledger", "ok", f"whole, nothing in doubt; {money}", hint, facts)]


def _ledger_file(run: Session) -> Path:
    if run.settings.mock:
        from tradesdk_cli.mockworld import ledger_file

        return ledger_file(run.settings)
    return run.settings.data_folder() / "ledger.sqlite3"
