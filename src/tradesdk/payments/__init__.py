"""Payments by x402: guards, budgets, the ledger, signing."""
