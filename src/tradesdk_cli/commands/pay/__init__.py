"""`trade pay`: what market data costs, what was paid for it, and what to do when a payment did not end well."""

from __future__ import annotations

from tradesdk_cli.framework.group import noun

app = noun("pay", "Payments: quote, history, show, budget, resume, reconcile, trust, key.")

VERBS = {
    "quote": "Show what market data costs, and what the budgets leave.",
    "history": "List payments, newest first.",
    "show": "Show everything about one payment but what could be cashed.",
    "budget": "Show what may be spent and what is left, or set it.",
    "resume": "Hand a payment over once more and print what it bought.",
    "reconcile": "Put the ledger in order after payments that did not end well.",
    "trust": "Accept one more address to pay.",
    "key": "The key of the wallet that pays: new, import, address, accept-secret.",
}
