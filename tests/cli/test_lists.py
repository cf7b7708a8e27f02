"""How much of a list comes, what is said about the rest, and what fits into a terminal."""

import json
from typing import Any

import pytest
from rich.cells import cell_len

from tradesdk import SystemClock
from tradesdk_mock import MockServer

from .. import _answers
from .._rows import each_of
from ._services import Scripted, agent
from ._terminal import Terminal

PREFIXES = ("agt_", "wal_", "trd_", "pos_", "sig_", "pay_")
IDS = ("id", "wallet_id", "agent_id", "token_address", "address")


def asked(server: MockServer) -> list[dict[str, str]]:
    return [dict(entry.query) for entry in server.journal("shared")]


def test_the_first_20_and_a_line_that_names_all(world: Terminal, server: MockServer) -> None:
    server.clear_journal()
    run = world("trades", "list")
    assert len(run.lines) == 20
    assert [query.get("limit") for query in asked(server)] == ["20"]
    assert "--all" in run.err
    person = world("trades", "list", tty=True, columns=200, env={"NO_COLOR": "1"})
    assert len(person.out.splitlines()) == 21
    assert "the first 20; there is more: --all" in person.err


@each_of("columns", [60, 80, 120])
def test_one_line_below_a_list_that_breaks_at_words(world: Terminal, columns: int) -> None:
    run = world("positions", "list", tty=True, columns=columns, env={"NO_COLOR": "1"})
    assert all(len(line) <= columns for line in run.err.splitlines())
    total, _, hidden = run.err.replace("\n", " ").strip().partition(" · ")
    assert "positions, unrealized profit" in total
    names = hidden.removeprefix("not shown: ").removesuffix(" (-o json has all)").split(", ")
    rows = world("positions", "list").lines
    assert "token_address" in names
    assert not set(names) & set(run.out.splitlines()[0].split()), "what is shown is not called hidden"
    for name, field in (("stop_loss", "stop_loss_price"), ("opened", "opened_at")):
        assert name not in names or any(row[field] for row in rows)


def test_what_is_empty_is_not_called_hidden(world: Terminal) -> None:
    run = world("trades", "list", "--status", "open", "--limit", "3", tty=True, columns=60, env={"NO_COLOR": "1"})
    assert "pnl" not in run.out.splitlines()[0]
    assert not {"pnl", "roi", "exit", "closed"} & set(run.err.replace(",", "").split())


def test_addresses_are_shortened_before_a_table_falls_into_blocks(world: Terminal) -> None:
    wide, narrow = (
        world("wallets", "list", tty=True, columns=columns, env={"NO_COLOR": "1"}).out.splitlines()
        for columns in (140, 60)
    )
    assert len(wide) == len(narrow)
    for row in narrow[1:]:
        beginning = row.split("  ")[-2].strip() if "…" not in row.split()[-1] else row.split()[-1]
        short = next(word for word in row.split() if word.startswith("0x"))
        assert short.endswith("…"), beginning
        wallet = row.split()[0]
        assert world("wallets", "balance", short).json["wallet_id"].startswith(wallet.removesuffix("…"))


@each_of(("line", "field"), [("trades list --sort {}pnl", "pnl_usd"), ("trades list --sort={}roi", "roi_pct")])
def test_a_sort_ranks_all_and_cuts_then(world: Terminal, line: str, field: str) -> None:
    values = [row[field] for row in world("trades", "list", "--all").lines if row[field] is not None]
    for sign in ("", "-"):
        ranked = sorted(values, reverse=not sign)
        assert [row[field] for row in world(*line.format(sign).split(), "-n", "5").lines] == ranked[:5]
        every = [row[field] for row in world(*line.format(sign).split(), "--all").lines]
        assert every[: len(ranked)] == ranked
        assert set(every[len(ranked) :]) == {None}, "what has no value is last, either way"


def test_limit_is_a_total(world: Terminal, server: MockServer) -> None:
    server.clear_journal()
    run = world("trades", "list", "--limit", "130")
    assert len(run.lines) == 130
    assert [query.get("limit") for query in asked(server)] == ["100", "30"]


@each_of("line", ["trades list", "trades list --sort pnl", "trades list --status closed", "trades list -w 5s"])
def test_a_query_is_not_answered_from_the_beginning_of_a_list(world: Terminal, line: str) -> None:
    run = world(*line.split(), "-q", "length(@)", tty="-w" in line)
    assert (run.code, run.out) == (2, "")
    assert "--query needs the whole list, and there is more" in run.err
    assert "--all, or --limit N" in run.err


@each_of(
    ("line", "number"),
    [
        ("trades list --limit 30", 30),
        ("trades list --sort pnl -n 30", 30),
        ("trades list --all", 250),
        ("agents list", 6),
    ],
)
def test_a_query_is_answered_from_all_that_was_asked_for(world: Terminal, line: str, number: int) -> None:
    assert world(*line.split(), "-q", "length(@)").json == number


def test_all(world: Terminal, server: MockServer) -> None:
    server.clear_journal()
    run = world("trades", "list", "--all", "-o", "json")
    assert len({trade["id"] for trade in run.json}) == 250
    assert run.err == ""
    assert len(asked(server)) == 3


def test_the_cursor_goes_on_right_after_the_last_item(world: Terminal) -> None:
    everything = world("trades", "list", "--all").lines
    first = world("trades", "list", "--limit", "7", "-o", "json")
    assert first.json == everything[:7]
    note = json.loads(first.err)
    second = world("trades", "list", "--limit", "5", "--cursor", note["next_cursor"], "-o", "json")
    assert second.json == everything[7:12]
    assert "5 more" in second.err


def test_an_empty_list_says_so(world: Terminal) -> None:
    nobody = f"agt_{0:024x}"
    run = world("trades", "list", "--agent-id", nobody)
    assert (run.code, run.out) == (0, "")
    assert "no trades like this" in run.err
    assert world("trades", "list", "--agent-id", nobody, "-o", "json").out == "[]\n"
    table = world("agents", "list", "--status", "error", "--limit", "1", "-o", "table")
    assert table.out.startswith("id ")


def test_filters_reach_the_service(world: Terminal, server: MockServer) -> None:
    server.clear_journal()
    world("wallets", "list", "--chain", "bnb")
    world("agents", "list", "--status", "active")
    world("trades", "list", "--status", "open", "--agent-id", f"agt_{0:024x}")
    world("signals", "latest", "--chain", "56", "--min-confidence", "0.9", "-n", "3")
    world("signals", "history", "--chain", "base", "--since", "1700000000", "--until", "2030-01-01", "--limit", "2")
    assert asked(server) == [
        {"chain_id": "56", "limit": "20"},
        {"status": "active", "limit": "20"},
        {"agent_id": f"agt_{0:024x}", "status": "open", "limit": "20"},
        {"chain": "56", "limit": "3", "min_confidence": "0.9"},
        {"chain": "8453", "from": "1700000000", "to": "1893456000", "limit": "2"},
    ]


@pytest.mark.parametrize(
    ("argv", "field", "low", "high"),
    [
        ("trades list --since {low} --until {high}", "opened_at", 60, 40),
        pytest.param("trades list --since {low}", "opened_at", 30, 0, marks=pytest.mark.long),
        pytest.param("trades list --until {high}", "opened_at", 0, 70, marks=pytest.mark.long),
        ("signals history --chain bnb --min-confidence 0.9", "confidence", 0.9, 1),
    ],
)
def test_what_the_service_cannot_filter(world: Terminal, argv: str, field: str, low: float, high: float) -> None:
    """All pages are read, whatever their order; what is shown is just what the whole list has of it."""
    words = argv.split()
    everything = world(*words[: words.index("bnb") + 1 if "bnb" in words else 2], "--all").lines
    if field == "opened_at":
        times = sorted(one[field] for one in everything)
        low, high = (times[-int(low)] if low else 0), (times[-int(high)] if high else times[-1])
    wanted = [one["id"] for one in everything if low <= one[field] <= high]
    assert 10 < len(wanted) < len(everything)
    typed = argv.format(low=int(low), high=int(high)).split()
    assert [one["id"] for one in world(*typed, "--all").lines] == wanted
    few = world(*typed, "--limit", "5")
    assert [one["id"] for one in few.lines] == wanted[:5]
    (said,) = few.notes
    assert "there is more" in said["note"]
    if "next_cursor" in said:  # only where it goes on right after the last row
        rest = world(*typed, "--all", "--cursor", said["next_cursor"])
        assert [one["id"] for one in rest.lines] == wanted[5:]


@each_of("what", ["trades", "positions"])
def test_a_terminal_has_the_names_of_agents(world: Terminal, server: MockServer, what: str) -> None:
    names = {one["id"]: one["name"] for one in world("agents", "list").lines}
    server.clear_journal()
    rows = world(what, "list").lines
    assert [entry.path for entry in server.journal()] == [f"/v1/{what}"], "a script makes no request more"
    server.clear_journal()
    table = world(what, "list", tty=True, columns=250, env={"NO_COLOR": "1"}).out.splitlines()
    assert [entry.path for entry in server.journal()] == [f"/v1/{what}", "/v1/agents"]
    at = table[0].index("agent ")
    assert [line[at:].split("  ")[0] for line in table[1 : 1 + len(rows)]] == [names[row["agent_id"]] for row in rows]


def test_without_the_names_it_is_the_ids(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [_answers.position(agent_id="agt_1")]})
    service.then(403, {"error": {"code": "forbidden", "message": "not with this key"}})
    run = trade("positions", "list", tty=True, columns=200, env={"NO_COLOR": "1"})
    assert run.code == 0
    assert "  agt_1  " in run.out
    assert "not with this key" not in run.err


def test_watch(world: Terminal, server: MockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, shown and cleared again and again until Ctrl-C; each time it is the present."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("tradesdk_cli.commands.lists.time.sleep", sleep)
    server.clear_journal()
    run = world("positions", "list", "-w", "10s", tty=True, columns=120, env={"NO_COLOR": "1"})
    assert (run.code, waits) == (130, [10.0, 10.0, 10.0])
    assert run.out.count("id  ") == 3
    assert run.err.count("unrealized profit") == 3
    assert [entry.path for entry in server.journal()].count("/v1/positions") == 3
    assert [entry.path for entry in server.journal()].count("/v1/agents") == 1, "names of agents are read once"
    refused = world("positions", "list", "--watch", "5s")
    assert (refused.code, refused.problem["message"]) == (2, "--watch needs a terminal")


@pytest.mark.usefixtures("patient")
def test_a_watch_ends_while_it_waits_for_the_service(
    world: Terminal, server: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ctrl_c(clock: SystemClock, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "sleep", ctrl_c)
    monkeypatch.setattr(
        "tradesdk_cli.commands.lists.time.sleep",
        lambda seconds: server.add_fault("status", status=503, retry_after=9, count=1),
    )
    run = world("positions", "list", "-w", "10s", tty=True, columns=200, env={"NO_COLOR": "1"})
    assert (run.code, run.out.count("id  ")) == (130, 1), "what was shown stays"
    assert "(GET /v1/positions)" in run.err, "without address and query"
    assert run.err.endswith("\x1b[Kinterrupted\n")
    server.add_fault("status", status=503, retry_after=9, count=1)
    run = world("positions", "list", "-w", "10s", tty=True, columns=200, env={"NO_COLOR": "1"})
    assert (run.code, run.out) == (130, "")
    assert run.err.endswith("\x1b[Kinterrupted before the first page\n")


def test_columns_that_are_empty_or_that_a_filter_fills_are_left_out_first(world: Terminal) -> None:
    narrow = {
        status: world("trades", "list", "--status", status, tty=True, columns=80, env={"NO_COLOR": "1"}).out.split("\n")
        for status in ("open", "closed")
    }
    assert narrow["open"][0].split()[:6] == ["id", "token", "side", "agent", "opened", "entry"]
    assert narrow["closed"][0].split()[:6] == ["id", "token", "side", "pnl", "roi", "agent"]


def test_a_token_by_its_symbol_or_its_address(world: Terminal) -> None:
    history = ("signals", "history", "--chain", "bnb")
    known = world(*history, "-n", "1").lines[0]
    by_symbol = world(*history, "--token", known["token_symbol"].lower(), "--all").lines
    assert by_symbol == world(*history, "--token", known["token_address"], "--all").lines
    assert {one["token_symbol"] for one in by_symbol} == {known["token_symbol"]}
    sells = world(*history, "--direction", "sell", "-n", "3").lines
    assert [one["direction"] for one in sells] == ["SELL"] * 3


def test_more_than_was_asked_for_is_cut(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent(), agent(), agent()]})
    assert len(trade("agents", "list", "--limit", "2").lines) == 2


def test_an_error_on_a_later_page_keeps_what_has_come(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()], "next_cursor": "c"})
    service.then(404, {"error": {"code": "not_found", "message": "gone"}})
    run = trade("agents", "list", "--all", "-o", "json")
    assert (run.code, [one["id"] for one in run.json]) == (6, ["agt_1"])
    said, problem = run.notes
    assert (said["next_cursor"], problem["code"]) == ("c", "not_found")


def test_ndjson_comes_page_by_page(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()], "next_cursor": "c"})
    service.then(404, {"error": {"code": "not_found", "message": "gone"}})
    run = trade("agents", "list", "--all")
    assert (run.code, len(run.lines)) == (6, 1)


@pytest.mark.long
@each_of("argv", ["agents list", "wallets list", "trades list", "positions list", "signals latest --chain base"])
def test_ids_can_be_pasted_at_any_width(world: Terminal, argv: str) -> None:
    items = world(*argv.split(), "-o", "json").json

    def is_shown(item: dict[str, str], name: str, words: set[str]) -> bool:
        """The whole id is there, or a beginning that no other id of the list has."""
        beginnings = {word[:-1] for word in words if word.endswith("…") and word.startswith(("0x", *PREFIXES))}
        found = [one for one in beginnings if item.get(name, "").startswith(one)]
        return str(item.get(name)) in words or any(
            {other[name] for other in items if other[name].startswith(one)} == {item[name]} for one in found
        )

    for columns in (20, 60, 120, 250):
        run = world(*argv.split(), tty=True, columns=columns, env={"NO_COLOR": "1"})
        words = set(run.out.split())
        shown = [name for name in IDS if any(is_shown(item, name, words) for item in items)]
        assert "id" in shown
        assert all(is_shown(item, name, words) for name in shown for item in items)
        assert "…0x" not in run.out
        for line in run.out.splitlines():
            assert cell_len(line) <= columns or len(line.split()) <= 2, "only an id or an address may be longer"
        if columns == 250:
            assert "not shown" not in run.err
            of_agent = {"agent_id"} & set(items[0])  # its name stands there, which works wherever an id does
            assert set(shown) == {name for name in IDS if name in items[0]} - of_agent
        if columns == 60 and not argv.startswith("wallets"):
            assert "not shown: " in run.err.replace("\n", " ")


def test_names_give_way_before_columns_do(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent("n" * 500)]})
    run = trade("agents", "list", tty=True, columns=60, env={"NO_COLOR": "1"})
    assert "n…" in run.out
    assert "wallet_id" in run.out
    assert all(len(line) <= 60 for line in run.out.splitlines())
    assert "n" * 500 in trade("agents", "list", "-o", "table").out, "nothing is cut in a pipe"


def test_a_cursor_is_printed_so_that_it_can_be_pasted(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()], "next_cursor": "x; $(id)"})
    assert trade("agents", "list", "--limit", "1").notes[-1]["next_cursor"] == "x; $(id)"
    seen = trade("agents", "list", "--limit", "1", "-v", tty=True, env={"NO_COLOR": "1"})
    assert "next cursor: 'x; $(id)'\n" in seen.err
    seen = trade("agents", "list", "--limit", "1", tty=True, env={"NO_COLOR": "1"})
    assert seen.err == "the first 1; there is more: --all, or --limit N\n", "people have --all"


FILTERS = [
    ("agents list --chain bnb", "agents list", lambda row: row["chain_id"] == 56),
    ("positions list --chain base --token {symbol}", "positions list", None),
    pytest.param(
        *("trades list --direction buy --chain base", "trades list", lambda row: row["chain_id"] == 8453),
        marks=pytest.mark.long,
    ),
    pytest.param(
        *("trades list --token {symbol} --status closed", "trades list --status closed", None), marks=pytest.mark.long
    ),
    (
        "signals latest --chain base --direction sell",
        "signals latest --chain base -n 100",
        lambda row: row["direction"] == "SELL",
    ),
    ("signals latest --chain base --token {symbol}", "signals latest --chain base -n 100", None),
]


@pytest.mark.parametrize(("line", "everything", "wanted"), FILTERS)
def test_what_the_service_does_not_filter_is_filtered_before_it_is_cut(
    world: Terminal, line: str, everything: str, wanted: Any
) -> None:
    every = world(*everything.split(), *(() if "signals" in everything else ("--all",)), "-o", "json").json
    symbol = every[-1]["token_symbol"] if "{symbol}" in line else ""
    keep = wanted or (lambda row: row["token_symbol"] == symbol)
    if "--chain base" in line and not wanted:
        kept = [row for row in every if keep(row) and row["chain_id"] == 8453]
    else:
        kept = [row for row in every if keep(row)]
    words = line.format(symbol=symbol.lower()).split()
    limit = ("-n", "100") if "signals" in line else ("--all",)
    assert [row["id"] for row in world(*words, *limit, "-o", "json").json] == [row["id"] for row in kept]
    assert [row["id"] for row in world(*words, "-n", "1", "-o", "json").json] == [row["id"] for row in kept[:1]]


def test_a_sum_stands_below_a_whole_list_only(world: Terminal) -> None:
    whole, part = (world("positions", "list", *more, tty=True) for more in (("--all",), ("-n", "2")))
    assert "unrealized profit" in whole.err
    assert "unrealized profit" not in part.err
    assert "the first 2" in part.err


def test_trades_are_ranked_and_then_cut(world: Terminal, server: MockServer) -> None:
    everything = world("trades", "list", "--status", "closed", "--all").lines
    for by, field in (("pnl", "pnl_usd"), ("roi", "roi_pct")):
        run = world("trades", "list", "--status", "closed", "--sort", by, "--limit", "3")
        best = sorted((one[field] for one in everything), reverse=True)
        assert [one[field] for one in run.lines] == best[:3]
        assert "the first 3; there is more" in run.err
    mixed = world("trades", "list", "--sort", "pnl", "--all").lines
    assert len(mixed) > len(everything)
    assert mixed[-1]["pnl_usd"] is None, "what is open comes last"
    for line in ("trades list --sort pnl --cursor x", "trades list --sort price"):
        assert world(*line.split()).code == 2
