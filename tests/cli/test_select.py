"""`--fields` and `--query`: what of a result is printed, in every format, and what is refused in time."""

import json
from typing import Any

import pytest

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.output.select import Selection
from tradesdk_mock import MockServer

from .._rows import each_of
from .._texts import HOSTILE
from ._services import Scripted, agent
from ._streams import event, sends
from ._terminal import Terminal

FULL = agent(
    risk={"stop_loss_pct": 3.0, "take_profit_pct": 9.5},
    stats={"total_trades": 7, "win_rate_pct": 50.0, "total_pnl_usd": -1.5},
    min_confidence=0.75,
    max_positions=5,
    updated_at=1767268800,
    tags=["a", {"b": 1}],
)
TWO = [agent(id="agt_1", risk={"stop_loss_pct": 3.0}), agent("=cmd", id="agt_2", risk=None)]


@pytest.fixture
def one(service: Scripted, trade: Terminal) -> Terminal:
    service.says(200, FULL)
    return trade


@pytest.fixture
def two(service: Scripted, trade: Terminal) -> Terminal:
    service.says(200, {"data": TWO})
    return trade


# Fields


ONE_BY_FORM = [
    ("json", '{\n  "stats": {\n    "total_trades": 7\n  },\n  "id": "agt_1"\n}\n'),
    ("ndjson", '{"stats":{"total_trades":7},"id":"agt_1"}\n'),
    ("csv", "stats.total_trades,id\n7,agt_1\n"),
    ("tsv", "stats.total_trades\tid\n7\tagt_1\n"),
    ("table", "stats.total_trades  7\nid                  agt_1\n"),
]


def test_fields_of_one_thing(one: Terminal) -> None:
    for form, text in ONE_BY_FORM:
        run = one("agents", "get", "agt_1", "--fields", "stats.total_trades,id", "-o", form)
        assert (run.code, run.out) == (0, text), form


LIST_BY_FORM = [
    ("ndjson", '{"risk":{"stop_loss_pct":3.0},"id":"agt_1"}\n{"risk":{"stop_loss_pct":null},"id":"agt_2"}\n'),
    ("csv", "risk.stop_loss_pct,id\n3.0,agt_1\n,agt_2\n"),
    ("tsv", "risk.stop_loss_pct\tid\n3.0\tagt_1\n\tagt_2\n"),
    ("table", "risk.stop_loss_pct  id\n             3.00%  agt_1\n                 -  agt_2\n"),
]


def test_fields_of_a_list(two: Terminal) -> None:
    for form, text in LIST_BY_FORM:
        run = two("agents", "list", "--fields", "risk.stop_loss_pct,id", "-o", form)
        assert (run.code, run.out) == (0, text), form
    assert two("agents", "list", "--fields", "risk.stop_loss_pct,id", "-o", "json").json == [
        {"risk": {"stop_loss_pct": 3.0}, "id": "agt_1"},
        {"risk": {"stop_loss_pct": None}, "id": "agt_2"},
    ]


def test_a_field_that_is_an_object_is_all_of_it(one: Terminal) -> None:
    assert one("agents", "get", "agt_1", "--fields", "risk", "-o", "csv").out == (
        "risk.stop_loss_pct,risk.take_profit_pct\n3.0,9.5\n"
    )
    run = one("agents", "get", "agt_1", "--fields", "risk,risk.stop_loss_pct", "-o", "json")
    assert run.json == {"risk": FULL["risk"]}


@each_of("form", ["table", "json", "ndjson", "csv", "tsv"])
def test_a_field_that_is_not_there(two: Terminal, form: str) -> None:
    run = two("agents", "list", "--fields", "id,nmae", "-o", form)
    assert (run.code, run.out) == (2, "")
    assert "there is no field nmae" in run.err
    assert "did you mean name?" in run.err
    if form != "table":
        assert run.problem["code"] == "usage"


def test_names_that_are_near(one: Terminal) -> None:
    def hint(fields: str) -> str:
        found: str = one("agents", "get", "agt_1", "--fields", fields, "-o", "json").problem["hint"]
        return found

    assert hint("stop_loss_pct") == "did you mean risk.stop_loss_pct?"
    assert hint("walet_id") == "did you mean wallet_id?"
    assert hint("xyz").startswith("there are: id, name, status")
    assert hint("xyz").endswith(", …")
    assert hint("tags.b").startswith("did you mean tags")
    assert hint("id.x").startswith("there are") or "id" in hint("id.x")


def test_what_a_table_calls_a_field_is_its_name_too(two: Terminal, service: Scripted) -> None:
    """So `total_pnl` is a column, a field and a sort."""
    assert two("agents", "list", "--fields", "created").lines == [{"created": 1767268800}] * 2
    for form, wanted in (
        ("json", [{"total_pnl": -12.5, "win_rate": 50.0, "trades": 4}]),
        ("csv", "total_pnl,win_rate,trades\n-12.5,50.0,4\n"),
        ("table", ["total_pnl", "win_rate", "trades", "-$12.50", "50.00%", "4"]),
    ):
        service.says(200, {"data": [agent(id="agt_1")]})
        service.then(200, FULL | {"stats": {"total_pnl_usd": -12.5, "win_rate_pct": 50.0, "total_trades": 4}})
        run = two("agents", "list", "--sort", "total_pnl", "--fields", "total_pnl,win_rate,trades", "-o", form)
        assert (run.json if form == "json" else run.out if form == "csv" else run.out.split()) == wanted
    service.says(200, {"data": [agent(id="agt_1")]})
    service.then(200, FULL)
    refused = two("agents", "list", "--results", "--fields", "pnl", "-o", "json")
    assert refused.problem["hint"] == "did you mean stats.total_pnl_usd?"


def test_a_query_that_selects_nothing_is_said_to_people(two: Terminal) -> None:
    for query in ("[?id=='x']", "[9]", "[].{a: id} | [?a=='x']", "[?contains(name, 'zz')]"):
        run = two("agents", "list", "--query", query, tty=True, env={"NO_COLOR": "1"})
        assert (run.code, run.err) == (0, "the query selected nothing\n"), query
        assert two("agents", "list", "--query", query).err == ""
    assert two("agents", "list", "--query", "[].id", tty=True).err == ""


NOWHERE = {
    "[].nmae": "there is no field nmae; did you mean name?",
    "[].agent_id": "there is no field agent_id; did you mean wallet_id?",
    "[?status==active]": "there is no field active; there are ",
    "[].{a: pnl}": "there is no field pnl; there are ",
    "[?nmae=='x'].created | [0]": "there is no field created, nmae; did you mean created_at, name?",
}


@each_of("query", NOWHERE)
def test_a_field_of_a_query_that_nothing_has_is_told_to_programs_too(query: str, two: Terminal) -> None:
    """A script would else take a typing error for an empty account."""
    run = two("agents", "list", "--query", query, "-o", "json")
    said = json.loads(run.err)
    assert (run.code, said["type"]) == (0, "nothing_selected")
    assert said["note"].startswith(f"the query selected nothing: {NOWHERE[query]}")


def test_fields_of_nothing(service: Scripted, trade: Terminal) -> None:
    service.says(200, {"data": []})
    outs = {form: trade("agents", "list", "--fields", "id,x", "-o", form) for form in ("json", "csv", "table")}
    assert {form: (run.code, run.out) for form, run in outs.items()} == {
        "json": (0, "[]\n"),
        "csv": (0, "id,x\n"),
        "table": (0, ""),
    }


def test_a_later_page_decides_nothing(service: Scripted, trade: Terminal) -> None:
    service.says(200, {"data": TWO[:1], "next_cursor": "c"})
    service.then(200, {"data": [{"id": "agt_9"}]})
    service.answers[1:] = [(200, {}, json.dumps({"data": [agent(id="agt_9")], "next_cursor": None}).encode())]
    run = trade("agents", "list", "--all", "--fields", "risk.stop_loss_pct,id")
    assert [item["risk"]["stop_loss_pct"] for item in run.lines] == [3.0, None]


@each_of(
    "name", ["nothing.x", "name.a.b", "tags.b.c", "chain_id.a.b", "risk.nothing.x", "risk.stop_loss_pct.x", "id.agt_1"]
)
def test_a_field_below_what_is_no_object_is_refused(one: Terminal, name: str) -> None:
    run = one("agents", "get", "agt_1", "--fields", name, "-o", "json")
    assert (run.code, run.problem["message"]) == (2, f"--fields: there is no field {name}")


@each_of("held", [{"more": None}, {"more": {}}, {"more": {"and": None}}, {"more": {"and": {}}}])
def test_a_field_below_what_is_null_or_empty_is_null(service: Scripted, trade: Terminal, held: dict[str, Any]) -> None:
    service.says(200, FULL | held)
    run = trade("agents", "get", "agt_1", "--fields", "more.and.more", "-o", "csv")
    assert (run.code, run.out) == (0, 'more.and.more\n""\n')


def test_a_query_that_cannot_be_asked_costs_nothing(buyer: Terminal, shop: MockServer) -> None:
    for query in ("length(@, @)", "length()", "nope(@)"):
        assert buyer("market", "prices", "ETH", "--max-price", "0.10", "--query", query).code == 2
    shop.payments.assert_charged(times=0)


def test_what_is_bought_or_written_is_checked_before(trade: Terminal, buyer: Terminal, shop: MockServer) -> None:
    run = buyer("market", "prices", "ETH", "--max-price", "0.10", "--fields", "symbl")
    assert run.problem["hint"] == "did you mean symbol?"
    shop.payments.assert_charged(times=0)
    assert (
        buyer("market", "prices", "ETH", "--max-price", "0.10", "--fields", "symbol", "-o", "csv").out
        == "symbol\nETH\n"
    )


def test_what_was_paid_for_is_kept_when_the_query_fails(buyer: Terminal, shop: MockServer) -> None:
    run = buyer("market", "prices", "ETH", "--max-price", "0.10", "--query", "sum([].symbol)")
    assert run.code == 1
    shop.payments.assert_charged(times=1)
    problem = json.loads(run.err.splitlines()[-1])
    assert problem["message"].startswith("--query: In function sum(), invalid type")
    kept = problem["hint"].removeprefix("your answer is kept: trade ").split()
    assert buyer(*kept, "--query", "[].symbol", "-o", "table").out == "value\nETH\n"
    shop.payments.assert_charged(times=1)


# Queries


QUERIES = [
    ("[].id", "json", '[\n  "agt_1",\n  "agt_2"\n]\n'),
    ("[].id", "ndjson", '"agt_1"\n"agt_2"\n'),
    ("[].name", "csv", "value\ncalm\n'=cmd\n"),
    ("[].id", "table", "value\nagt_1\nagt_2\n"),
    ("[].[id,chain_id]", "tsv", "1\t2\nagt_1\t8453\nagt_2\t8453\n"),
    ("[].{a:id,b:risk}", "csv", "a,b.stop_loss_pct,b\nagt_1,3.0,\nagt_2,,\n"),
    ("length(@)", "json", "2\n"),
    ("length(@)", "ndjson", "2\n"),
    ("length(@)", "csv", "value\n2\n"),
    ("length(@)", "table", "2\n"),
    ("merge([0], {x: `1`}, {y: `2`}).y", "json", "2\n"),
    ("not_null([0].nothing, [1].nothing, [1].id)", "table", "agt_2\n"),
    ("[0].id", "table", "agt_1\n"),
    ("[0].id", "json", '"agt_1"\n'),
    ("[?id=='x']", "json", "[]\n"),
    ("[?id=='x']", "csv", ""),
    ("[0].nothing", "json", "null\n"),
    ("[?chain_id==`8453`] | [0].{id: id}", "json", '{\n  "id": "agt_1"\n}\n'),
    ("[[0].id, `1.5`, `true`]", "csv", "value\nagt_1\n1.5\ntrue\n"),
]


def test_queries_over_a_list(two: Terminal) -> None:
    for query, form, text in QUERIES:
        run = two("agents", "list", "--query", query, "-o", form)
        assert (run.code, run.out) == (0, text), (query, form)


def test_what_a_query_gives_decides_in_a_pipe(two: Terminal) -> None:
    assert two("agents", "list", "--query", "[0].{id:id}").json == {"id": "agt_1"}
    assert two("agents", "list", "--query", "[].{id:id}").lines == [{"id": "agt_1"}, {"id": "agt_2"}]
    shown = two("agents", "list", "--query", "[].{id:id}", tty=True).out
    assert shown == two("agents", "list", "--fields", "id", tty=True).out


def test_the_query_comes_before_the_fields(two: Terminal) -> None:
    run = two("agents", "list", "--query", "[].{a:id,b:name}", "--fields", "b", "-o", "csv")
    assert run.out == "b\ncalm\n'=cmd\n"
    run = two("agents", "list", "--query", "[].id", "--fields", "b", "-o", "csv")
    assert (run.code, run.out) == (2, "")
    assert "--fields wants objects" in run.problem["message"]


def test_a_query_over_one_thing(one: Terminal) -> None:
    assert one("agents", "get", "agt_1", "--query", "risk").json == FULL["risk"]
    assert one("agents", "get", "agt_1", "--query", "sum([risk.stop_loss_pct, `0.1`])").out == "3.1\n"


@each_of(
    ("query", "message", "hint"),
    [
        ("", "cannot be empty", "for example"),
        ("[", "Incomplete expression", "for example"),
        ("[?a=='x' b]", "Parse error at column 9", "for example"),
        ("a.'x", "Unclosed ' delimiter", "for example"),
        ("lenght(@)", "Unknown function: lenght()", "for example"),
        ("[].nope(@)", "Unknown function: nope()", "for example"),
        ("length()", "Expected 1 argument for function length(), received 0", "for example"),
        ("length(@, @)", "Expected 1 argument for function length(), received 2", "for example"),
        ("[].join(',')", "Expected 2 arguments for function join(), received 1", "for example"),
        ("[].contains(@, 'a', 'b')", "Expected 2 arguments for function contains(), received 3", "for example"),
        ("sort(max_by(@, &id, &id))", "Expected 2 arguments for function max_by(), received 3", "for example"),
        ("merge()", "Expected at least 1 argument for function merge(), received 0", "for example"),
        ("(" * 20_000, "", "for example"),
        (HOSTILE, "", "for example"),
    ],
)
def test_a_wrong_query_is_refused_before_anything_is_sent(
    trade: Terminal, service: Scripted, query: str, message: str, hint: str
) -> None:
    others = (("agents", "delete", "agt_1", "--yes"), ("signals", "stream", "--chain", "base"))
    for words in (("agents", "list"), *(others if query == "[" else ())):
        run = trade(*words, "--query", query)
        assert run.code == 2
        assert run.problem["message"].startswith("--query: ")
        assert message in run.problem["message"]
        assert hint in run.problem["hint"]
        assert all(line.isprintable() for line in run.err.split("\n"))
    assert service.seen == []


@each_of("query", ["&id", "to_number('inf')", "sum([].name)", "avg([].chain_id)", "abs(@)"])
def test_what_a_query_cannot_give(two: Terminal, query: str) -> None:
    run = two("agents", "list", "--query", query, "-o", "json")
    if query.startswith("avg"):
        assert run.json == 8453.0
    else:
        assert (run.code, run.out) == (2, "")
        assert run.problem["message"].startswith("--query: ")


def test_floats_are_not_rounded(service: Scripted, trade: Terminal) -> None:
    numbers = [0.1, 1e-17, 123456789.123456789, 2**63, 10**30, -0.0]
    service.says(200, {"data": [agent(n=number) for number in numbers]})
    run = trade("agents", "list", "--query", "[].n", "-o", "json")
    assert repr(run.json) == repr(numbers)


# Streams


@pytest.fixture
def stream(market: MockServer) -> tuple[str, ...]:
    """Reads three signals."""
    sides = {1: "BUY", 2: "SELL", 3: "BUY"}
    return sends(market, *(event(n, id=f"sig_{n}", direction=side) for n, side in sides.items()))


@each_of(
    ("options", "text"),
    [
        (("--fields", "direction,id", "-o", "csv"), "direction,id\nBUY,sig_1\nSELL,sig_2\nBUY,sig_3\n"),
        (("--query", "direction=='BUY'", "--fields", "id"), '{"id":"sig_1"}\n{"id":"sig_3"}\n'),
        (("--query", "direction=='BUY' && id", "-o", "table"), "sig_1\nsig_3\n"),
        (("--query", "[id, direction]", "-o", "tsv"), "1\t2\nsig_1\tBUY\nsig_2\tSELL\nsig_3\tBUY\n"),
        (("--query", "nothing"), ""),
        (("--fields", "id", "-o", "table"), "id\nsig_1\nsig_2\nsig_3\n"),
    ],
)
def test_each_item_of_a_stream(trade: Terminal, stream: tuple[str, ...], options: tuple[str, ...], text: str) -> None:
    run = trade(*stream, *options)
    assert (run.code, run.out) == (0, text)


def test_the_first_item_of_a_stream_decides_which_fields_there_are(trade: Terminal, stream: tuple[str, ...]) -> None:
    run = trade(*stream, "--fields", "idd", "-o", "csv")
    assert (run.code, run.out) == (2, "")
    assert "did you mean id?" in run.err


def test_a_stream_says_once_that_its_query_names_no_field(trade: Terminal, stream: tuple[str, ...]) -> None:
    """It would else select nothing for as long as it runs."""
    said = [json.loads(line) for line in trade(*stream, "--query", "confidnce && id").err.splitlines()]
    wanted = "the query selects nothing: there is no field confidnce; did you mean confidence?"
    assert [each["note"] for each in said if each["type"] == "nothing_selected"] == [wanted]
    assert "nothing_selected" not in trade(*stream, "--query", "direction=='HOLD' && id").err


def test_a_selection_copies_what_it_changes() -> None:
    item = {"a": {"b": 1, "c": 2}, "x.y": 3}
    assert Selection(None, ("a", "a.b", "x.y")).pick(item) == item
    assert item == {"a": {"b": 1, "c": 2}, "x.y": 3}
    with pytest.raises(UsageProblem):
        Selection(None, ("a.d",)).look_at([item])
