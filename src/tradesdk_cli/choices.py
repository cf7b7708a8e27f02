"""Closed sets of words: what options take, and what settings may be."""

from __future__ import annotations

from enum import StrEnum

CHAINS = {"base": 8453, "bnb": 56}
CHAIN_NAMES = {number: name for name, number in CHAINS.items()}


class Format(StrEnum):
    """How results are printed."""

    auto = "auto"
    table = "table"
    json = "json"
    ndjson = "ndjson"
    csv = "csv"
    tsv = "tsv"
