"""Allowed values of options and settings."""

from __future__ import annotations

from typing import Literal, get_args

CHAINS = {"base": 8453, "bnb": 56}
CHAIN_NAMES = {number: name for name, number in CHAINS.items()}
Format = Literal["auto", "table", "json", "ndjson", "csv", "tsv"]
"""How results are printed."""
FORMATS: tuple[str, ...] = get_args(Format)
Times = Literal["iso", "unix"]
"""How times are printed: ISO 8601, or Unix seconds."""
