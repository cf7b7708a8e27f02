"""Points that the specification leaves open: for each of the mock's gap options, the value in a service's answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk import Heartbeat, StreamSignal
from tradesdk_cli.probe.answers import NONE, Answers, Unseen, inside
from tradesdk_cli.probe.rules import LISTS, RECORDS, RULES, broken

if TYPE_CHECKING:
    from tradesdk_mock import GapOptions

Row = dict[str, Any]
See = Callable[[Answers], str]

_DONE, _REFUSED = {200: "200", 201: "200"}, {400: "400", 422: "422"}
_WALLET = "connecting a wallet cannot be undone"
# Options that a status shows: the option, the question, and the value for each status.
_STATUSES: dict[str, tuple[str, dict[int, str]]] = {
    "bounds": ("bounds", dict.fromkeys(_DONE, "none") | {422: "checked"}),
    "delete_stopped": ("delete_paused", {204: "204", 409: "409"}),
    "unknown_wallet": ("unknown_wallet", {404: "404", 422: "422"}),
    "wallet_chain": ("other_chain", _REFUSED),
    "unknown_agent_filter": ("no_filter", {200: "empty", 404: "404"}),
    "empty_patch": ("empty_patch", _DONE | {400: "400"}),
    "range_status": ("limit_0", _REFUSED),
    "no_routes": ("start", {404: "404", 405: "routes"}),
    "b_port": ("market_here", {200: "same", 404: "another"}),
    "b_bearer": ("tokens_keyless", {200: "not-required", 401: "required", 402: "not-required"}),
    "b_invalid": ("bad_sort", _REFUSED | {402: "402-first"}),
    "paywall": ("offer", {402: "closed", 200: "open"}),
}
NEVER = {
    "wallet_message": _WALLET,
    "wallet_twice": _WALLET,
    "cursor_ttl": "it takes hours",
    "history_lag_spread": "it takes many signals",
    "payer_balance": "it is about your wallet, not about the service",
    "delegated_payers": "it takes a wallet that is delegated by EIP-7702",
}
"""Options that no answer shows, with the reason."""
_WRITTEN = {
    "rate_headers": "with every REST response",
    "unknown_values": "states and fields as listed",
    "enterprise_limit": "custom",
    "read_only_account": "reads signals, agents, trades, balances",
    "paywall": "402 without a payment",
    "order": "history newest first; others not shown",
}
"""The text of the specification about points; all others: "not shown"."""
_SETTINGS = {
    "wallet_message": "default: wallets.connect_with(message=)",
    "heartbeat": "default: idle_timeout=90, then learned",
    "history_lag": "default: settle=3",
    "history_lag_spread": "default: settle=3",
    "b_port": "setting: market_base_url",
    "b_bearer": "setting: send_api_key",
    "payment_window": "10 to 120 s",
    "flow": "setting: allow_upfront",
    "paywall": "either way",
}
"""Points for which the client has a setting or bounds; it relies on no other."""


def _mock() -> GapOptions:
    """The options of the mock, with their defaults."""
    from tradesdk_mock import GapOptions  # only for the probe

    return GapOptions()


def usual() -> dict[str, Any]:
    """The default behavior of the mock."""
    return _mock().as_dict()


def of_file(path: Path) -> dict[str, Any]:
    """The behavior of a mock with this file; raises ValueError with the reason if it cannot be used."""
    return _mock().from_file(path).as_dict()


def write_status(a: Answers) -> str:
    return f"{a.status('create', 200, 201)}/{a.status('patch', 200, 201)}"


def risk_defaults(a: Answers) -> str:
    a.status("create", 200, 201)
    risk = a["create"].at("risk")
    risk = {name: value for name, value in risk.items() if value is not None} if isinstance(risk, dict) else risk
    filled = {"position_size_pct": 5, "stop_loss_pct": 3, "trailing_stop_pct": 2, "take_profit_pct": 10}
    return "absent" if not risk else "filled" if risk == filled else f"filled: {risk}"


def order(a: Answers) -> str:
    for name, time in {
        "agents": "created_at",
        "wallets": "created_at",
        "trades": "opened_at",
        "latest": "timestamp",
    }.items():
        times = [one[time] for one in a[name].items() if isinstance(one.get(time), int)]
        falls = {before > after for before, after in pairwise(times) if before != after}
        if falls:
            return "mixed" if len(falls) > 1 else "newest" if falls.pop() else "oldest"
    raise Unseen("no list has two different times in it")


def unknown_values(a: Answers) -> str:
    a.status("account", 200)
    for name, (model, most) in RECORDS.items():
        answer, known = a.get(name, NONE), {field.alias or name for name, field in model.model_fields.items()}
        for item in answer.items(*LISTS.get(name, ())) if most else [answer.body]:
            if answer.ok and isinstance(item, dict) and item.keys() - known:
                return "on"
    return "off"


def clock_skew(a: Answers) -> str:
    if a.ahead is None:
        raise Unseen("the service does not say what time it is")
    return str(math.ceil(a.ahead - 0.5)) if abs(a.ahead) > 2 else "0"


def rate_headers(a: Answers) -> str:
    a.status("no_agent", 404)
    return "always" if "x-ratelimit-limit" in a["no_agent"].headers else "never"


def quotas(a: Answers) -> str:
    a.status("usage", 200)
    plan, seen = a["account"].at("plan"), tuple(a["usage"].at(what, "limit") for what in ("requests", "agents"))
    usual = plan in ("free", "pro", "enterprise") and _mock().quota(plan) == seen
    return "default" if usual else f"{plan}={seen[0]}/{seen[1]}"


def _left(a: Answers, what: str) -> int:
    a.status("usage", 200)
    used, limit = (a["usage"].at(what, name) for name in ("used", "limit"))
    if not (isinstance(used, int) and isinstance(limit, int)):
        raise Unseen("the usage does not say what is left")
    return limit - used


def agent_quota_status(a: Answers) -> str:
    if _left(a, "agents") > 0:
        raise Unseen("the plan has room for more agents")
    return str(a.status("create", 403, 422))


def request_quota(a: Answers) -> str:
    if _left(a, "requests") >= 0:
        raise Unseen("the period's quota is not used up")
    return "served"


def unknown_field(a: Answers) -> str:
    question = "unknown_field" if "unknown_field" in a or "market_field" not in a else "market_field"
    return "400" if a.status(question, 200, 201, 400) == 400 else "ignored"


def time_bounds(a: Answers) -> str:
    a.status("range", 200)
    times = [one.get("timestamp") for one in a["range"].items()]
    both = {edge in times for edge in a.window}
    return "one of them" if len(both) > 1 else "inclusive" if both.pop() else "exclusive"


def enterprise_limit(a: Answers) -> str:
    if a["account"].at("plan") != "enterprise":
        raise Unseen("the plan is not enterprise")
    return a["account"].headers.get("x-ratelimit-limit", "no header")


def read_only_account(a: Answers) -> str:
    if a.status("account", 200, 403) == 403:
        return "403"
    if a["create"].status != 403 or _left(a, "agents") <= 0:
        raise Unseen("the key is not read-only")
    return "allowed"


def heartbeat(a: Answers) -> str:
    a.status("stream", 200)
    sent = [item.timestamp.timestamp() for item in a.events if isinstance(item, Heartbeat)]
    if len(sent) < 2:
        raise Unseen(f"{'only one' if sent else 'none'} came within {a.listened:.0f} s")
    # Without timed ones: by the heartbeats' timestamps, which are whole seconds.
    intervals = a.intervals or [later - earlier for earlier, later in pairwise(sent)]
    seconds = sum(intervals) / len(intervals)
    if seconds < 0.5:
        raise Unseen("less than a second lies between them, or their timestamps are wrong")
    return str(round(seconds))


def resume(a: Answers) -> str:
    a.status("stream", 200)
    if not any(isinstance(item, StreamSignal) for item in a.events):
        raise Unseen(f"no signal came within {a.listened:.0f} s")
    return "ids" if a.event_id else "none"


def stream_filter(a: Answers) -> str:
    a.status("stream", 200)  # a service that checks confidence refuses 2; else the answer does not end
    return "none" if a.endless else "honoured" * bool(a.status("stream_filter", *_REFUSED))


def history_lag(a: Answers) -> str:
    if a.lag is None:
        a.status("stream", 200)
        if "lag" in a:
            a.status("lag", 200)
        raise Unseen(a.reasons.get("lag", f"no signal came within {a.listened:.0f} s"))
    missed, found = a.lag
    least = int(missed + 1.01)
    return str(least) if found < least + 1 else f"{least} to {found:.0f}"


def b_rate(a: Answers) -> str:
    a.status("tokens", 200)
    return a["tokens"].headers.get("x-ratelimit-limit", "none")


def unknown_token(a: Answers) -> str:
    if a.status("pay", 200, 404) == 200 and "unknown_token" in a.reasons:
        raise Unseen(a.reasons["unknown_token"])
    if a["pay"].status == 404:
        return "404"
    results = len(a["pay"].items("data", "results"))
    return "partial" if results == 1 else f"200 with {results} results"


def payment_window(a: Answers) -> str:
    return str(a.ways()[0].get("maxTimeoutSeconds"))


def payment_identifier(a: Answers) -> str:
    a.ways()
    found = inside(a.offer(), "extensions", "payment-identifier")
    return "none" if not found else "required" if inside(found, "info", "required") is True else "optional"


def offers(a: Answers) -> str:
    a.ways()
    accepts = a.offer()["accepts"]
    others = [way for way in accepts if inside(way, "extra", "paymentFlow") != "upfront"]  # `flow` covers those
    return "one" if len(others or accepts) == 1 else "several"


def offer_in(a: Answers) -> str:
    a.offer()
    header, body = a.offers()
    return "body" if header is None else "header" if body is None else "both"


def reason_in(a: Answers) -> str:
    a.offer()
    header, _ = a.offers()
    if header is None:
        raise Unseen("the offer is in the body, and the reason with it")
    if isinstance(header.get("error"), str):
        return "header"
    if isinstance(a["offer"].at("error"), str):
        return "body"
    raise Unseen("neither the offer nor the body of the 402 has one")


def flow(a: Answers) -> str:
    cheapest = [way for way in a.ways() if way.get("amount") == a.ways()[0].get("amount")]
    flows = {str(inside(way, "extra", "paymentFlow") or "authorization") for way in cheapest}
    return "both" if flows == {"authorization", "upfront"} else " and ".join(sorted(flows))


_SEEN_BY: tuple[See, ...] = (
    write_status, risk_defaults, order, unknown_values, clock_skew, rate_headers, quotas, agent_quota_status,
    request_quota, unknown_field, time_bounds, enterprise_limit, read_only_account, heartbeat, resume, stream_filter,
    history_lag, b_rate, unknown_token, payment_window, payment_identifier, offers,
    offer_in, reason_in, flow,
)  # fmt: skip
_SEES = {see.__name__: see for see in _SEEN_BY}


def _seen(name: str, a: Answers) -> str:
    """The value of a gap option; raises Unseen without one."""
    if name in NEVER:
        raise Unseen(NEVER[name])
    if name in _STATUSES:
        question, values = _STATUSES[name]
        return values[a.status(question, *values)]
    return _SEES[name](a)


def rows(a: Answers) -> list[Row]:
    """One row per broken rule, then one per point.

    `finding` is `broken`, `seen` or `unseen`; `value` is that of the mock's option, None if the mock has no such value.
    """
    found = []
    for rule, how in broken(a).items():
        more = f" (and {len(how) - 1} more)" if len(how) > 1 else ""
        found.append(_row("broken", rule, how[0] + more, RULES[rule]))
    for gap in _mock().describe():
        value, finding = None, "seen"
        try:
            seen = _seen(gap.name, a)
            with suppress(ValueError):  # the mock has no such value
                value = _mock().changed(**{gap.name: seen}).as_dict()[gap.name]
        except Unseen as why:
            finding, seen = "unseen", str(why)
        written, relies = _WRITTEN.get(gap.name, "not shown"), _SETTINGS.get(gap.name, "no")
        found.append(_row(finding, gap.name, seen, written, relies, value))
    return found


def _row(finding: str, name: str, seen: str, written: str, relies: str | None = None, value: Any = None) -> Row:
    row = {"finding": finding, "point": name, "seen": seen, "specification": written, "client_relies": relies}
    return row | {"value": value}


def options(found: list[Row]) -> dict[str, Any]:
    """The mock's options for the seen behavior, without defaults.

    A point that is not seen keeps its default, so a mock with these options gives the same result.
    """
    others = differences(found, usual())
    return {row["point"]: row["value"] for row in others if row["value"] is not None}


def differences(found: list[Row], expected: Mapping[str, Any]) -> list[Row]:
    """Seen behavior that a mock with these options does not have."""
    return [row for row in found if row["finding"] == "seen" and row["value"] != expected[row["point"]]]
