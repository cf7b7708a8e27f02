"""`trade pay`: what market data costs, what was paid for it, and how to resolve unfinished payments."""

from __future__ import annotations

from tradesdk_cli.framework.group import noun

app = noun("pay", "Payments: quote, history, show, budget, resume, reconcile, trust, key.")

VERBS = {
    "quote": "Show what market data costs, and what the budgets leave.",
    "history": "List payments, newest first.",
    "show": "Show one payment (without its signature).",
    "budget": "Show what may be spent and what is left, or set it.",
    "resume": "Resend a payment and print what it bought.",
    "reconcile": "Resolve unfinished payments.",
    "trust": "Accept one more address to pay.",
    "key": "The key of the wallet that pays: new, import, address, accept-secret.",
}
