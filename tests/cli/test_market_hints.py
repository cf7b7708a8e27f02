"""Hints after a batch that was paid for and did not come: the commands in them can be typed."""

from __future__ import annotations

import json
import re

import pytest

from tradesdk_mock import MockServer

from ._terminal import Terminal


@pytest.mark.long
@pytest.mark.parametrize("job", [(), ("--job", "mine")])
def test_the_hints_of_an_undelivered_batch_can_be_followed(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...], job: tuple[str, ...]
) -> None:
    line = ("market", "prices", *tokens[:6], "--batches", *job, "--max-price", "0.18", "--no-retry")
    shop.add_fault("malformed_json", route="/v1/token-prices", paid="only", nth=1, count=1)
    first = buyer(*line)
    again = buyer(*line)
    resumed = buyer("pay", "resume", first.problem["payment"]["id"])
    assert [one.problem["code"] for one in (first, again, resumed)] == ["paid_undelivered", *["unresolved_payment"] * 2]
    told = {command for one in (first, again, resumed) for command in commands(one.problem["hint"])}
    name = first.problem["payment"]["id"]
    assert told == {f"pay show {name}", *(() if job else (f"pay reconcile --mark paid {name}",))}
    for command in sorted(told, reverse=True):
        assert buyer(*command.split()).code == 0, command
    assert buyer(*line, *(("--new-purchase", name) if job else ())).code == 0
    shop.payments.assert_charged(times=3)
    if job:
        return
    marked = buyer("pay", "resume", name)
    assert marked.problem["code"] == "not_live"
    assert [buyer(*command.split()).code for command in commands(marked.problem["hint"])] == [0]


def test_it_is_said_what_comes_before_a_job_goes_on(buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]) -> None:
    shop.add_fault("malformed_json", route="/v1/token-prices", paid="only", nth=2, count=1)
    line = ("market", "prices", *tokens[:6], "--batches", "--job", "mine", "--max-price", "0.18", "--no-retry")
    for code in (14, 12):
        run = buyer(*line)
        assert run.code == code
        lost = json.loads(run.err.splitlines()[-1])["payment"]["id"]
        assert f"are printed; with --new-purchase {lost} the same command goes on from there" in run.err
    assert len(buyer(*line, "--new-purchase", lost).lines) == 6


@pytest.mark.long
@pytest.mark.parametrize("job", [(), ("--job", "mine")])
def test_the_hints_of_a_batch_in_doubt_can_be_followed(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...], job: tuple[str, ...]
) -> None:
    shop.add_fault("status", status=500, route="/v1/token-prices", paid="only", nth=1, count=1)
    line = ("market", "prices", *tokens[:6], "--batches", *job, "--max-price", "0.18", "--no-retry")
    (resume,) = commands(buyer(*line).problem["hint"])
    assert [one["symbol"] for one in buyer(*resume.split()).lines] == list(tokens[:5])
    name = resume.rpartition(" ")[2]
    known = [buyer("pay", "reconcile", "--mark", said, name).problem for said in ("paid", "unpaid")]
    assert [one["code"] for one in known] == ["not_unresolved"] * 2, "it ended well, so there is nothing to say"
    assert [buyer(*command.split()).code for one in known for command in commands(one["hint"])] == [0, 0]
    assert buyer(*line).code == 0


@pytest.mark.long
def test_the_hint_for_another_payment_for_batches_can_be_followed(
    buyer: Terminal, shop: MockServer, tokens: tuple[str, ...]
) -> None:
    line = ("market", "prices", *tokens[:6], "--batches", "--max-price", "0.18", "--no-retry")
    shop.add_fault("malformed_json", route="/v1/token-prices", paid="only", nth=1, count=1)
    name = buyer(*line).problem["payment"]["id"]
    assert buyer(*line, "--new-purchase", name).code == 0


def commands(hint: str) -> list[str]:
    """The command lines in a hint, without the program; of `paid|unpaid` there are both."""
    found = re.findall(r"trade (pay (?:show|resume|reconcile --mark \S+) pay_\w+)", hint)
    return [
        command.replace("paid|unpaid", said)
        for command in found
        for said in (("paid", "unpaid") if "|" in command else ("",))
    ]
