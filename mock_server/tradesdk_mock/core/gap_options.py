"""Gap options: choices of the mock where the specification says nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

Plan = Literal["free", "pro", "enterprise"]
PLANS: tuple[Plan, ...] = get_args(Plan)
_QUOTAS = {"free": (10_000, 3), "pro": (100_000, 25), "enterprise": (10_000_000, 1_000)}
_QUOTA = re.compile(r"(free|pro|enterprise)=(\d{1,12})/(\d{1,9})", re.ASCII)


def _choice(text: str, default: str, *others: str) -> Any:
    return field(default=default, metadata={"text": text, "values": (default, *others)})


def _number(text: str, default: int, low: int, high: int, *examples: int) -> Any:
    return field(default=default, metadata={"text": text, "range": (low, high), "examples": examples})


def _text(text: str, default: str, *examples: str) -> Any:
    return field(default=default, metadata={"text": text, "examples": examples})


@dataclass(frozen=True)
class GapInfo:
    """One option as `trade mock gaps list` lists it.

    Attributes:
        name: the argument of `GapOptions`.
        default: the default value.
        others: the other values, or examples when there are too many.
        text: what the option does.
    """

    name: str
    default: str
    others: tuple[str, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class GapOptions:
    """What the mock does where the specification says nothing. Values may be text, as on a command line.

    Raises:
        ValueError: a bad value of an option.
    """

    write_status: str = _choice("status of a successful POST / PATCH", "201/200", "200/200", "201/201")
    risk_defaults: str = _choice(
        "risk fields left out of a create: absent, or filled in with 5/3/2/10", "absent", "filled"
    )
    bounds: str = _choice(
        "percentages in (0, 100] and max_positions 1 to 100: checked (422), or not", "checked", "none"
    )
    delete_stopped: str = _choice("deleting a paused or error agent: 204 or 409", "204", "409")
    wallet_message: str = _text(
        "text that a wallet signs: default, or a template with {address} and {chain_id}",
        "default",
        "I own {address} on chain {chain_id}",
    )
    order: str = _choice("order of lists; signal history is newest first in any case", "newest", "oldest")
    unknown_values: str = _choice("an unknown status and an unknown field in every response", "off", "on")
    clock_skew: int = _number("seconds that the service's clock is ahead of the mock's", 0, -86_400, 86_400, 600, -600)
    rate_headers: str = _choice("X-RateLimit headers on 401 and 404 too", "always", "never")
    cursor_ttl: int = _number("seconds until a cursor expires (400); 0 means never", 0, 0, 10**9, 3_600)
    quotas: str = _text(
        "requests/agents per plan in the usage record, e.g. free=100/1,pro=500/2; plans left out keep their default",
        "default",
        "free=10/1,pro=20/2,enterprise=30/3",
    )
    agent_quota_status: str = _choice("creating an agent beyond the limit of the plan", "403", "422")
    request_quota: str = _choice("requests beyond the period's quota: served, or 429", "served", "429")
    unknown_wallet: str = _choice("binding an agent to a wallet that isn't connected", "404", "422")
    wallet_chain: str = _choice("binding an agent to a wallet of another chain", "422", "400")
    wallet_twice: str = _choice("connecting a wallet a second time: 409, or it is returned again", "409", "again")
    unknown_agent_filter: str = _choice("agent_id filter with an unknown agent: an empty page, or 404", "empty", "404")
    unknown_field: str = _choice("a body field that isn't in the specification", "ignored", "400")
    empty_patch: str = _choice("a PATCH that changes nothing", "200", "400")
    time_bounds: str = _choice("from and to of the signal history", "inclusive", "exclusive")
    range_status: str = _choice("a limit, chain or filter value out of range", "422", "400")
    enterprise_limit: int = _number("requests a minute of the enterprise plan", 3_000, 1, 10**9, 60_000)
    read_only_account: str = _choice("a read-only key reads account and positions", "allowed", "403")
    no_routes: str = _choice(
        "start, stop and pause of agents and removal of wallets: no such paths, or they exist"
        " (POST /v1/agents/ID/start|stop|pause, DELETE /v1/wallets/ID)",
        "404",
        "routes",
    )
    heartbeat: int = _number("seconds between heartbeats on the stream; 0 means never", 15, 0, 86_400, 1, 60, 0)
    resume: str = _choice("ids on the stream's events, and support for Last-Event-ID", "none", "ids")
    stream_filter: str = _choice("min_confidence on the stream: ignored, or honoured", "none", "honoured")
    history_lag: int = _number("seconds until a signal that was streamed is in the history", 0, 0, 3_600, 2)
    history_lag_spread: int = _number(
        "up to this many seconds more, different for each signal: a later one may appear before an earlier one",
        0,
        0,
        3_600,
        2,
    )
    b_port: str = _choice("market data is served at the same address, or on a port of its own", "same", "another")
    b_bearer: str = _choice("market data needs an API key as well", "not-required", "required")
    b_invalid: str = _choice(
        "bad requests for market data: 400 or 422 before payment is asked for, or 400 after it",
        "400",
        "422",
        "402-first",
    )
    b_rate: str = _choice("requests a minute for market data", "none", "60")
    unknown_token: str = _choice(
        "one unknown token among several: 404 for all, or it is left out of the results", "404", "partial"
    )
    paywall: str = _choice("paid market data: behind the payment, or open to anyone", "closed", "open")
    payment_window: int = _number("seconds that a payment may be valid for (maxTimeoutSeconds)", 60, 1, 86_400, 15, 300)
    payment_identifier: str = _choice(
        "the extension payment-identifier: the same id and payload get the stored response again; not offered, offered,"
        " or required (400 without one)",
        "none",
        "optional",
        "required",
    )
    offers: str = _choice(
        "ways to pay in an offer: one, or several (a higher price, an unknown scheme, another network, the plain one)",
        "one",
        "several",
    )
    offer_in: str = _choice("where the offer of a 402 is", "header", "body", "both")
    reason_in: str = _choice(
        "where the reason of a refused payment is, if the offer is in the header: with it, or in the body",
        "header",
        "body",
    )
    flow: str = _choice(
        "when the money is taken: after the work, before it (paymentFlow: upfront; an error then costs the price), or"
        " both are offered",
        "authorization",
        "upfront",
        "both",
    )
    delegated_payers: str = _choice(
        "payments of a key whose account is delegated to a contract (EIP-7702)", "accepted", "refused"
    )
    payer_balance: int = _number("US dollars of each payer at the start", 1_000, 0, 10**9, 0, 1)

    def __post_init__(self) -> None:
        for option in fields(self):
            # The class is frozen: set the checked value directly, once.
            object.__setattr__(self, option.name, _checked(option, getattr(self, option.name)))

    def quota(self, plan: str) -> tuple[int, int]:
        """(requests a period, agents) of a plan."""
        found = dict(_QUOTAS)
        if self.quotas != "default":
            found.update((name, (int(r), int(a))) for name, r, a in _QUOTA.findall(self.quotas))
        return found[plan]

    def as_dict(self) -> dict[str, str | int]:
        """All options and their values."""
        return {option.name: getattr(self, option.name) for option in fields(self)}

    def changed(self, /, **options: object) -> GapOptions:
        """A copy with some options changed.

        Raises:
            ValueError: an unknown option or a bad value; the message names the option.
        """
        known = self.as_dict()
        for name in [name for name in options if name not in known]:
            close = get_close_matches(name, known)
            meant = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(known)}"
            raise ValueError(f"there is no gap option {name!r}; {meant}")
        merged: Mapping[str, Any] = {**known, **options}
        return GapOptions(**merged)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> GapOptions:
        """The options of a JSON file, an object of names and values, as `trade doctor --service --gaps FILE` writes it.

        Raises:
            ValueError: the file cannot be read, an unknown option or a bad value; the message names it.
        """
        try:
            found = json.loads(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {getattr(error, 'strerror', None) or 'is not JSON'}") from None
        if not isinstance(found, dict):
            raise ValueError(f"{path}: must be an object of gap options and their values")
        return cls().changed(**found)

    @classmethod
    def describe(cls) -> list[GapInfo]:
        """All options, each with its default, its other values and a one-line description."""
        found = []
        for option in fields(cls):
            others = option.metadata.get("examples") or option.metadata.get("values", ())[1:]
            found.append(
                GapInfo(option.name, str(option.default), tuple(map(str, others)), str(option.metadata["text"]))
            )
        return found


def _checked(option: Field[Any], value: object) -> str | int:
    if "range" in option.metadata:
        low, high = option.metadata["range"]
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,12}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"gap option {option.name}: {value!r} is not an integer from {low} to {high}")
        return value
    if "values" in option.metadata:
        text = value if isinstance(value, str) else str(value) if type(value) is int else ""
        if text not in option.metadata["values"]:
            raise ValueError(
                f"gap option {option.name}: {value!r} is not one of {', '.join(option.metadata['values'])}"
            )
        return text
    if not isinstance(value, str):
        raise ValueError(f"gap option {option.name}: {value!r} is not text")
    if option.name == "quotas" and value != "default" and not all(map(_QUOTA.fullmatch, value.split(","))):
        raise ValueError(f"gap option quotas: {value!r} is not like free=100/1,pro=500/2")
    if option.name == "wallet_message" and value != "default":
        if "{address}" not in value:
            raise ValueError("gap option wallet_message: the template needs {address}")
        if len(value) > 2_000:
            raise ValueError("gap option wallet_message: the template is longer than 2,000 characters")
    return value
