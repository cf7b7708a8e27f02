"""Units of arguments of operations, beyond their types: a command line shows these words and parses values by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

Moment = Annotated[float, "TIME"]
Second = Annotated[int, "TIME"]
Seconds = Annotated[float, "SECONDS"]
MicroUsd = Annotated[int, "USD"]
"""Micro-dollars."""
Address = Annotated[str, "ADDRESS"]
AgentId = Annotated[str, "AGENT_ID"]
ChainId = Annotated[int, "CHAIN"]
FaultId = Annotated[str, "FAULT_ID"]
FaultName = Annotated[str, "KIND"]
KeyId = Annotated[str, "KEY_ID"]
Tenants = Annotated[Sequence[str], "TENANT"]
