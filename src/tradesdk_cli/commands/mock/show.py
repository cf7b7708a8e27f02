"""How the mock's own things look to people. Programs get them as the mock sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from tradesdk_cli.redact import is_secret_field
from tradesdk_cli.text import to_json, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from tradesdk_cli.output.printer import Output

_INDENT = 4
_LONGEST_PATH = 48
_LONGEST_PARAMETER = 1_000
_HIDDEN = "****"


def show_clock(out: Output, clock: Mapping[str, Any]) -> None:
    """The clock's time, also as one that can be read."""
    if not out.draws(many=False):
        out.one(clock)
        return
    from tradesdk_cli.output.table import moment

    skewed = clock["service_now"] != clock["now"]
    service = {"service": moment(clock["service_now"])} if skewed else {}
    out.one({"now": f"{clock['now']:.3f}", "time": moment(clock["now"]), **service, **_pace(clock)})


def _pace(clock: Mapping[str, Any]) -> dict[str, str]:
    pace = "in real time" if clock["speed"] == 1 else f"{clock['speed']:g} times real time"
    return {"clock": "stands still" if clock["frozen"] else f"runs, {pace}"}


def _failing(prices: bool | list[str]) -> str:
    if isinstance(prices, bool):
        return "; no prices" if prices else ""
    return f"; no prices for {', '.join(map(str, prices))}"


def show_status(out: Output, status: Mapping[str, Any]) -> None:
    """Everything that the mock holds."""
    if not out.draws(many=False):
        out.one(status)
        return
    from tradesdk_cli.output.table import moment

    shown: dict[str, Any] = {
        "seed": status["seed"],
        "now": f"{moment(status['now'])} ({status['now']:.3f})",
        **_pace(status),
        "market": f"{status['market']}, {visible(str(status['scenario']))}{_failing(status['price_failure'])}",
        "state": status["db"] or "in memory",
        "tenants": ", ".join(map(str, status["tenants"])) or "none",
    }
    shown |= {name: status[name] for name in ("keys", "agents", "trades", "signals", "streams", "faults")}
    if "signals_upto" in status:
        shown["signals"] = _signals(status)
    shown["gaps"] = _assignments(status["gaps"]) or "defaults"
    out.one(shown)


def _signals(status: Mapping[str, Any]) -> str:
    """How many there are. They are made when they or trades that follow from them are read."""
    from tradesdk_cli.output.table import moment

    upto, count = status["signals_upto"], status["signals"]
    if upto is None:
        return f"{count} so far; the market's are made when they are read"
    if not isinstance(upto, int | float) or status["service_now"] - upto < 1:
        return str(count)
    return f"{count} up to {moment(upto)}; later ones are made when they are read"


def show_rules(out: Output, rules: Sequence[Mapping[str, Any]], *, one: bool = False) -> None:
    """Fault rules: what each does, which requests it meets, and how often it did."""
    if not out.draws(many=not one):
        if one:
            out.one(rules[0])
        else:
            out.many((), [list(map(dict, rules))], empty="no faults")
        return
    if not rules:
        out.note("no faults")
        return
    from rich.text import Text

    from tradesdk_cli.output.table import print_line

    def draw(console: Console) -> None:
        for rule in rules:
            parameters = " ".join(_shortened(each) for each in _each_assignment(rule["parameters"]))
            print_line(console, Text.assemble(visible(rule["id"]), "  ", (visible(rule["kind"]), "bold")))
            met = f"{_met(rule)}; seen {rule['seen']}, hit {rule['fired']}"
            _wrapped(console, filter(None, (parameters, met)), out.width)

    out.draw(draw)


def _met(rule: Mapping[str, Any]) -> str:
    """Which requests a rule is for, in words."""
    requests = " ".join(filter(None, (rule["method"], rule["route"]))) or "every request"
    parts = [requests]
    if rule["tenant"] is not None:
        parts.append(f"of {rule['tenant']}")
    if rule["key"] is not None:
        parts.append(f"with the key {rule['key']}")
    if rule["query"] is not None:
        parts.append(f"with {_assignments(rule['query'])} in the query")
    if rule["paid"] is not None:
        parts.append("with a payment" if rule["paid"] == "only" else "without a payment")
    if rule["since"] is not None:
        parts.append(f"from {_time(rule['since'])} on")
    if rule["until"] is not None:
        parts.append(f"until {_time(rule['until'])}")
    if rule["nth"] is not None:
        parts.append(f"the {_ordinal(rule['nth'])} only")
    if rule["every"] is not None:
        parts.append(f"every {_ordinal(rule['every'])}" if rule["every"] > 1 else "each")
    if rule["probability"] is not None:
        parts.append(f"with probability {rule['probability']:g}")
    if rule["count"] is not None:
        parts.append(f"at most {rule['count']} times" if rule["count"] > 1 else "once")
    return ", ".join(parts)


def _time(at: float) -> str:
    from tradesdk_cli.output.table import moment

    return f"{moment(at)} ({at:.15g})"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def show_kinds(out: Output, kinds: Sequence[Mapping[str, Any]]) -> None:
    """Kinds of faults with their parameters."""
    if not out.draws(many=True):
        out.many((), [list(map(dict, kinds))], empty="no kinds")
        return
    from rich.text import Text

    from tradesdk_cli.output.table import print_line

    def draw(console: Console) -> None:
        for kind in kinds:
            print_line(console, Text.assemble((visible(kind["name"]), "bold"), f"  (on {kind['on']}s)"))
            lines = [kind["text"]]
            for parameter in kind["parameters"]:
                default = "" if parameter["default"] is None else f"={_plain(parameter['default'])}"
                lines.append(f"{parameter['name']}{default}  {parameter['text']}")
            _wrapped(console, lines, out.width)

    out.draw(draw)


def journal_rows(out: Output, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests as rows of a table; for programs, as they are."""
    if not out.draws(many=True):
        return entries
    # A made-up path may be of any length, and would take the place of everything else; ids fit.
    room = None if out.width is None else min(_LONGEST_PATH, max(20, out.width - 16))
    return [
        {**entry, "path": visible(entry["path"], room), "faults": " ".join(map(str, entry["faults"])) or None}
        for entry in entries
    ]


def log_line(entry: Mapping[str, Any]) -> str:
    """One request as seven words: time, tenant, method, path with its query, status, error, faults.

    A key in the query, where it does not belong, is not shown.
    """
    from tradesdk_cli.output.table import moment

    query = urlencode(
        {name: _HIDDEN if is_secret_field(name) else value for name, value in entry["query"].items()}, safe="*"
    )
    path = quote(entry["path"], safe="/:@!$&'()*+,;=~", errors="replace") + (f"?{query}" if query else "")
    when = moment(entry["at"]).replace(" ", "T")
    words = (
        when,
        entry["tenant"],
        entry["method"],
        path,
        entry["status"],
        entry["error"],
        ",".join(map(str, entry["faults"])),
    )
    return visible(" ".join("-" if word in (None, "") else str(word) for word in words))


def _assignments(values: Mapping[str, Any]) -> str:
    return " ".join(_each_assignment(values))


def _each_assignment(values: Mapping[str, Any]) -> Iterable[str]:
    return (f"{name}={_plain(value)}" for name, value in values.items())


def _shortened(text: str) -> str:
    """Some are megabytes."""
    return text if len(text) <= _LONGEST_PARAMETER else text[: _LONGEST_PARAMETER - 1] + "…"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _wrapped(console: Console, lines: Iterable[str], width: int | None) -> None:
    """Prints lines indented, the long ones wrapped to the terminal."""
    from rich.text import Text

    from tradesdk_cli.output.table import print_line

    for line in lines:
        text = Text(visible(line))
        for part in [text] if width is None else text.wrap(console, max(20, width - _INDENT)):
            part.rstrip()
            print_line(console, Text(" " * _INDENT) + part)
