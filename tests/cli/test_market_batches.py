"""Many tokens: bought batch by batch, printed as they come, continued and never paid for twice."""

from __future__ import annotations

import re

import pytest

from tradesdk_cli.retries import SayingClock
from tradesdk_mock import MockServer

from ._terminal import Terminal


def test_all_of_them_are_bought_and_it_says_how_far_it_is(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]
) -> None:
    run = buyer("market", "prices", *tokens, tokens[0].lower(), "--batches", "--max-price", "0.40")
    assert run.code == 0, run.err
    assert [one["symbol"] for one in run.lines] == list(tokens)
    shop.payments.assert_charged(times=3, amount=330_000)
    told = [note for note in run.notes if "batch" in note]
    assert [(note["batch"], note["batches"], note["spent_usd"]) for note in told] == [
        (1, 3, "0.15"),
        (2, 3, "0.30"),
        (3, 3, "0.33"),
    ]
    assert {note["cap_usd"] for note in told} == {"0.40"}
    assert told[0]["note"] == f"batch 1 of 3: {', '.join(tokens[:5])}; $0.15 of $0.40 spent"
    assert run.notes[-1]["target"] == {"mode": "local", "host": shop.url.removeprefix("http://")}
    assert "paid $0.33 from 0x" in run.notes[-1]["note"]
    assert "in 3 payments" in run.notes[-1]["note"]
    assert len(run.notes[-1]["payments"]) == 3


def test_the_price_of_all_is_what_somebody_says_yes_to(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]
) -> None:
    run = buyer("market", "avg-prices", *tokens, "--batches", answers="y\n")
    assert "token-avg-prices for 11 tokens in 3 batches costs $0.22. Pay? [y/N]" in run.err
    assert run.code == 0
    assert "\r\x1b[K0 of 11 tokens, batch 1 of 3, $0.00 of $0.22 spent" in run.err
    assert run.err.splitlines()[-1].rpartition("\x1b[K")[2].startswith("\x1b[2mpaid $0.22"), "nothing of it stays"
    shop.payments.assert_charged(times=3, amount=220_000)
    assert buyer("market", "prices", *tokens, "--batches", answers="n\n").code == 1
    alone = buyer("market", "prices", *tokens, "--batches")
    assert (alone.code, alone.problem["code"]) == (12, "no_budget")
    shop.payments.assert_charged(times=3)


@pytest.mark.parametrize("form", ["ndjson", "json", "table"])
def test_what_was_paid_for_is_printed_when_a_later_batch_fails(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...], form: str
) -> None:
    shop.add_fault("status", route="/v1/token-prices", paid="only", nth=2, status=400)
    line = ("market", "prices", *tokens, "--batches", "--job", "mine", "--max-price", "0.33", "-o", form)
    run = buyer(*line)
    assert run.code == 8
    assert all(symbol in run.out for symbol in tokens[:5])
    assert tokens[5] not in run.out.split()
    assert "1 of 3 batches were bought and are printed; the same command continues from there" in run.err
    assert shop.payments.spent() == 150_000


def test_a_job_goes_on_and_pays_for_nothing_twice(buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]) -> None:
    shop.add_fault("status", route="/v1/token-prices", paid="only", nth=3, status=500)
    line = ("market", "prices", *tokens, "--batches", "--job", "mine", "--max-price", "0.33")
    first = buyer(*line)
    assert first.code == 14
    assert len(first.out.splitlines()) == 10
    second = buyer(*line)
    assert second.code == 0, second.err
    assert [one["symbol"] for one in second.lines] == list(tokens)
    assert [note["note"].endswith("(had already, not paid again)") for note in second.notes if "batch" in note] == [
        True,
        True,
        False,
    ]
    shop.payments.assert_charged(times=3, amount=330_000)
    assert shop.payments.signatures() == 3
    (told,) = [note for note in second.notes if "paid_usd" in note]
    assert (told["paid_usd"], len(told["payments"])) == ("0.03", 1)  # what the first run bought is not paid now
    third = buyer(*line)
    assert not [note for note in third.notes if "paid_usd" in note]
    assert third.notes[-1] == {"note": "nothing was paid: the job mine had all of it"}
    assert third.out == second.out
    shop.payments.assert_charged(times=3)


def test_a_job_about_a_period_goes_on_too(buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]) -> None:
    line = (
        "market",
        "history",
        *tokens[:6],
        "--since",
        "2026-01-01",
        "--until",
        "2026-01-02",
        "--batches",
        "--job",
        "j",
    )
    assert buyer(*line, "--max-price", "0.30").code == 0
    assert buyer(*line, "--max-price", "0.30").code == 0
    shop.payments.assert_charged(times=2, amount=300_000)


def test_the_cap_is_for_the_whole_command(buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]) -> None:
    run = buyer("market", "prices", *tokens, "--batches", "--max-price", "0.20")
    assert run.code == 12
    problem = run.problem
    assert (problem["code"], problem["charged"]) == ("over_total", False)
    assert problem["message"] == "3 batches cost $0.33, and --max-price is $0.20"
    assert problem["hint"] == "to buy them all: --max-price 0.33"
    assert shop.journal() == []


def test_a_dry_run_of_many_sends_nothing(buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]) -> None:
    run = buyer("market", "prices", *tokens, "--batches", "--dry-run", "-o", "json")
    assert run.json == {
        "method": "POST",
        "path": "/v1/token-prices",
        "tokens": 11,
        "batches": 3,
        "batches_had": None,
        "price_usd": "0.33",
        "left_usd": None,
        "next_call_usd": None,
        "refusal": {"code": "no_budget", "message": "it costs $0.33, and no budget is set"},
    }
    assert run.code == 0
    assert shop.journal() == []


@pytest.mark.parametrize(
    ("cap", "env", "refusal"),
    [
        ("0.33", {}, None),
        ("0.14", {}, "over_total: 3 batches cost $0.33, and --max-price is $0.14"),
        ("0.32", {}, "over_total: 3 batches cost $0.33, and --max-price is $0.32"),
        (None, {"TRADE_BUDGET_TOTAL": "0.33"}, None),
        ("1", {"TRADE_BUDGET_PER_CALL": "0.14"}, "over_budget: a batch costs $0.15, and $0.14 is left"),
        (None, {"TRADE_BUDGET_PER_DAY": "0.2"}, "over_budget: a batch costs $0.15, and $0.05 is left after 1 batch"),
        ("1", {"TRADE_WALLET_KEY": ""}, "no_signer: there is no wallet to pay with"),
    ],
)
def test_a_dry_run_of_many_says_why_it_would_be_refused(
    buyer: Terminal,
    shop: MockServer,
    tokens: tuple[str, ...],
    cap: str | None,
    env: dict[str, str],
    refusal: str | None,
) -> None:
    line = ("market", "prices", *tokens, "--batches", *(() if cap is None else ("--max-price", cap)))
    shown = buyer(*line, "--dry-run", env=env)
    code, _, message = (refusal or "").partition(": ")
    assert (shown.code, shown.json["refusal"]) == (0, {"code": code, "message": message} if code else None)
    real = buyer(*line, env=env)
    assert (real.code, real.notes[-1].get("code")) == (12 if code else 0, code or None)


def test_a_dry_run_of_many_counts_what_the_job_has(buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]) -> None:
    line = ("market", "prices", *tokens, "--batches", "--job", "mine")
    had = [buyer(*line, "--max-price", "0.33", "--dry-run").json["batches_had"]]
    assert buyer(*line, env={"TRADE_BUDGET_TOTAL": "0.30"}).code == 12
    assert buyer(*line, "--max-price", "0.02").problem["message"] == "1 batch costs $0.03, and --max-price is $0.02"
    sent = len(shop.journal())
    shown = buyer(*line, "--max-price", "0.03", "--dry-run").json
    assert (*had, shown["batches_had"], shown["price_usd"], shown["refusal"]) == (0, 2, "0.03", None)
    assert len(shop.journal()) == sent
    assert buyer(*line, "--max-price", "0.03").code == 0
    done = buyer(*line, "--dry-run").json
    assert (done["batches_had"], done["price_usd"], done["refusal"]) == (3, "0.00", None)


@pytest.mark.usefixtures("patient")
def test_ctrl_c_keeps_what_was_bought(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second batch fails, and while its payment waits for another try somebody has enough."""

    def enough(self: object, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SayingClock, "sleep", enough)
    shop.add_fault("status", route="/v1/token-prices", paid="only", nth=2, status=500)
    run = buyer("market", "prices", *tokens, "--batches", "--job", "mine", "--max-price", "0.33", "-o", "table")
    assert run.code == 130
    assert [line.split()[0] for line in run.out.splitlines()[1:]] == list(tokens[:5])
    (open_,) = buyer("pay", "history", "--stage", "sent").lines
    assert f"$0.15 was being paid: trade pay resume {open_['id']}" in run.err
    assert run.err.splitlines()[-1] == (
        "interrupted: 1 of 3 batches were bought and are printed; the same command continues from there"
    )


def test_receipts_of_batches(buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]) -> None:
    run = buyer("market", "win-rate", *tokens[:6], "--batches", "--receipt", "--max-price", "1")
    assert [len(one["data"]) for one in run.lines] == [5, 1]
    assert [one["receipt"]["transaction"] for one in run.lines] == [
        one.transaction for one in shop.payments.settlements()
    ]
    table = buyer("market", "win-rate", *tokens[:6], "--batches", "--receipt", "--max-price", "1", "-o", "table")
    assert table.out.count("receipt.transaction") == 2


def test_what_was_bought_goes_beside_the_file_when_a_later_batch_fails(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]
) -> None:
    shop.add_fault("status", route="/v1/token-prices", paid="only", nth=2, status=400)
    file = buyer.home / "prices.csv"
    file.write_text("of yesterday\n")
    run = buyer("market", "prices", *tokens, "--batches", "--max-price", "0.33", "--out", str(file))
    assert (run.code, file.read_text()) == (8, "of yesterday\n")
    assert len((buyer.home / "prices.csv.part").read_text().splitlines()) == 6
    assert "1 of 3 batches were bought and are kept" in run.err


# Hints after a batch that was paid for and did not come: the commands in them can be typed


@pytest.mark.long
@pytest.mark.parametrize("job", [(), ("--job", "mine")])
def test_the_hints_of_an_undelivered_batch_can_be_followed(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...], job: tuple[str, ...]
) -> None:
    line = ("market", "prices", *tokens[:6], "--batches", *job, "--max-price", "0.18")
    shop.add_fault("malformed_json", route="/v1/token-prices", paid="only", nth=1, count=1)
    first = buyer(*line)
    again = buyer(*line)
    resumed = buyer("pay", "resume", first.problem["payment"]["id"])
    stopped = [first, resumed] if job else [first, again, resumed]  # a job continues with its next batch
    assert [one.problem["code"] for one in stopped] == ["paid_undelivered", *["unresolved_payment"] * len(stopped[1:])]
    told = {command for one in stopped for command in commands(one.problem["hint"])}
    name = first.problem["payment"]["id"]
    assert told == {f"pay show {name}", *(() if job else (f"pay reconcile --mark paid {name}",))}
    for command in sorted(told, reverse=True):
        assert buyer(*command.split()).code == 0, command
    done = buyer(*line)
    assert done.code == (14 if job else 0)
    shop.payments.assert_charged(times=2 if job else 3)
    if job:
        assert "passed over" in again.err
        assert "passed over" in done.err
        return
    marked = buyer("pay", "resume", name)
    assert marked.problem["code"] == "not_live"
    assert [buyer(*command.split()).code for command in commands(marked.problem["hint"])] == [0]


def test_a_job_goes_on_past_what_has_no_answer_and_says_so(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]
) -> None:
    shop.add_fault("malformed_json", route="/v1/token-prices", paid="only", nth=1, count=1)
    line = ("market", "prices", *tokens[:6], "--batches", "--job", "mine", "--max-price", "0.18")
    assert buyer(*line).code == 14
    again = buyer(*line)
    assert (again.code, len(again.lines)) == (14, 1)
    assert f"passed over: {', '.join(tokens[:5])}" in again.err
    assert "use another --job name" in again.err
    shop.payments.assert_charged(times=2)


@pytest.mark.long
@pytest.mark.parametrize("job", [(), ("--job", "mine")])
def test_the_hints_of_a_batch_in_doubt_can_be_followed(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...], job: tuple[str, ...]
) -> None:
    shop.add_fault("status", status=500, route="/v1/token-prices", paid="only", nth=1, count=1)
    line = ("market", "prices", *tokens[:6], "--batches", *job, "--max-price", "0.18")
    (resume,) = commands(buyer(*line).problem["hint"])
    assert [one["symbol"] for one in buyer(*resume.split()).lines] == list(tokens[:5])
    name = resume.rpartition(" ")[2]
    known = [buyer("pay", "reconcile", "--mark", said, name).problem for said in ("paid", "unpaid")]
    assert [one["code"] for one in known] == ["not_unresolved"] * 2, "it ended well, so there is nothing to say"
    assert [buyer(*command.split()).code for one in known for command in commands(one["hint"])] == [0, 0]
    assert buyer(*line).code == 0


def commands(hint: str) -> list[str]:
    """The command lines in a hint, without the program; of `paid|unpaid` there are both."""
    found = re.findall(r"trade (pay (?:show|resume|reconcile --mark \S+) pay_\w+)", hint)
    return [
        command.replace("paid|unpaid", said)
        for command in found
        for said in (("paid", "unpaid") if "|" in command else ("",))
    ]
