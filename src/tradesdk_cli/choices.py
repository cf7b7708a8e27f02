"""Closed sets of words: what options take, and what settings may be."""

from __future__ import annotations

from typing import Literal, get_args

CHAINS = {"base": 8453, "bnb": 56}
CHAIN_NAMES = {number: name for name, number in CHAINS.items()}
Format = Literal["auto", "table", "json", "ndjson", "csv", "tsv"]
"""How results are printed."""
FORMATS: tuple[str, ...] = get_args(Format)
Times = Literal["iso", "unix"]
"""How moments are printed: in ISO 8601, or as Unix seconds."""
