"""What an agent prepares is done once, after a person's yes, exactly as it was shown; and `trade approve`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tradesdk import LocalSigner, TradeClient, create_keystore
from tradesdk_cli.mcp.answers import Fault
from tradesdk_cli.mcp.approvals import MOST_PENDING, VALID, Approvals, approvals_file
from tradesdk_cli.mcp.catalog import Scope
from tradesdk_mock import MockServer

from .._rows import each_of
from ._mcp import EVERYTHING, Box, Clock, Person, toolbox, wallet_of
from ._terminal import Terminal

BUY = {"data": "metrics", "purchase": "totals"}
posix = pytest.mark.skipif(os.name == "nt", reason="there are no modes of files")


@pytest.fixture
def faulty(stock: MockServer) -> Iterator[MockServer]:
    """The same, for faults that end with the test."""
    yield stock
    stock.clear_faults()


class InStep(Clock):
    """A clock at which two threads wait for each other whenever they read it, so that both decide at the same time."""

    barrier: threading.Barrier | None = None

    def __call__(self) -> float:
        if self.barrier is not None:
            with suppress(threading.BrokenBarrierError):
                self.barrier.wait()
        return super().__call__()


@pytest.fixture
def clock() -> InStep:
    return InStep()


@pytest.fixture
def person(tmp_path: Path, clock: Clock) -> Person:
    return Person(tmp_path, clock)


@pytest.fixture
def box(tmp_path: Path, stock: MockServer, clock: Clock) -> Iterator[Box]:
    with toolbox(tmp_path, stock, now=clock) as made:
        yield made


@pytest.fixture
def trade_client(stock: MockServer) -> Iterator[TradeClient]:
    with TradeClient(base_url=stock.url, api_key="mock_full_house") as client:
        yield client


@pytest.fixture
def agent(trade_client: TradeClient) -> str:
    """An agent of this test."""
    wallet = next(one for one in trade_client.wallets.list() if one.chain_id == 8453)
    return trade_client.agents.create(name="mine", wallet_id=wallet.id, chain_id=8453, max_positions=2).id


def refused(box: Box, tool: str, **arguments: Any) -> str:
    with pytest.raises(Fault) as caught:
        box.call(tool, arguments)
    return caught.value.code


def settled(server: MockServer, home: Path) -> int:
    return len(server.payments.settlements(LocalSigner.from_key(wallet_of(home)).address))


def changes(server: MockServer, agent: str) -> int:
    return sum(entry.method != "GET" and entry.path == f"/v1/agents/{agent}" for entry in server.journal())


# Purchases


def test_a_purchase_waits_and_is_then_paid_once(box: Box, person: Person, stock: MockServer, tmp_path: Path) -> None:
    first, second = box.call("market_buy", BUY), box.call("market_buy", BUY)
    assert first["status"] == second["status"] == "approval_required"
    assert first["code"] == second["code"]
    assert settled(stock, tmp_path) == 0
    person.approve(first["code"])
    answers = [box.call("market_buy", BUY) for _ in range(3)]
    assert [one["again"] for one in answers] == [False, True, True]
    assert settled(stock, tmp_path) == 1
    assert box.limit.spent == 60_000


@pytest.mark.long
def test_small_purchases_need_no_person(tmp_path: Path, stock: MockServer, person: Person) -> None:
    with toolbox(tmp_path, stock, Scope(spend=100_000, auto=30_000), now=person.now) as box:
        assert box.call("market_buy", {"data": "prices", "tokens": ["ETH"], "purchase": "one"})["status"] == "done"
        assert box.call("market_buy", BUY)["status"] == "approval_required"
        bought = {"data": "prices", "tokens": ["ETH"]}
        for name in ("two", "three"):
            assert box.call("market_buy", {**bought, "purchase": name})["status"] == "done"
        assert refused(box, "market_buy", **bought, purchase="four") == "over_session_limit"
    assert settled(stock, tmp_path) == 3
    assert [one.state for one in person.all()] == ["pending"], "what needs no person is no approval"


def test_the_budgets_hold_as_well(tmp_path: Path, stock: MockServer, clock: Clock) -> None:
    with toolbox(
        tmp_path, stock, Scope(spend=500_000, auto=500_000), env={"TRADE_BUDGET_TOTAL": "0.05"}, now=clock
    ) as box:
        assert refused(box, "market_buy", **BUY) == "over_budget"
        assert box.call("market_buy", {"data": "prices", "tokens": ["ETH"], "purchase": "one"})["status"] == "done"
        assert refused(box, "market_buy", data="prices", tokens=["ETH"], purchase="two") == "over_budget"
    assert settled(stock, tmp_path) == 1


def test_a_name_is_for_one_thing(box: Box, person: Person) -> None:
    person.approve(box.call("market_buy", BUY)["code"])
    box.call("market_buy", BUY)
    other = {"data": "top", "sort_by": "ROI", "purchase": BUY["purchase"]}
    assert refused(box, "market_buy", **other) == "purchase_changed", "before a person is asked"
    assert box.limit.spent == 60_000, "nothing was signed for the other one"


def test_an_agent_cannot_take_a_persons_names(box: Box, person: Person) -> None:
    person.approve(box.call("market_buy", {**BUY, "purchase": "job/1"})["code"])
    bought = box.call("market_buy", {**BUY, "purchase": "job/1"})
    payment = box.call("payments", {"id": bought["payment"]})
    assert payment["item"]["untrusted"]["purchase"] == "mcp/job/1"


def test_an_unknown_outcome_names_the_tool_that_goes_on(tmp_path: Path, person: Person, faulty: MockServer) -> None:
    server = faulty
    with toolbox(tmp_path, server, now=person.now) as box:
        code = box.call("market_buy", BUY)["code"]
        person.approve(code)
        server.add_fault("status", route="/v1/aggregate-metrics", paid="only", status=500)
        with pytest.raises(Fault) as caught:
            box.call("market_buy", BUY)
        told = caught.value
        assert (told.code, told.about["charged"]) == ("outcome_unknown", "unknown")
        assert "action=resume" in told.next_step
        assert "again under" not in told.next_step
        payment = told.about["payment"]["id"]
        assert box.limit.spent == 60_000, "it may have been taken"
        assert [one.state for one in person.all()] == ["unknown"]
        server.clear_faults()
        resumed = box.call("payments", {"action": "resume", "id": payment})
        assert (resumed["status"], resumed["total"]) == ("done", 1)
        assert box.call("market_buy", BUY)["items"] == resumed["items"]
        assert box.limit.spent == 60_000
        assert settled(server, tmp_path) == 1


def test_a_payment_that_the_service_refuses_stays_counted(
    box: Box, person: Person, stock: MockServer, tmp_path: Path
) -> None:
    """A service's word proves nothing: it could cash what it called refused."""
    stock.payments.set_balance(LocalSigner.from_key(wallet_of(tmp_path)).address, 0)
    person.approve(box.call("market_buy", BUY)["code"])
    with pytest.raises(Fault) as caught:
        box.call("market_buy", BUY)
    assert (caught.value.code, caught.value.about["charged"]) == ("insufficient_funds", "unknown")
    assert "tell the person" in caught.value.next_step
    assert box.limit.spent == 60_000
    assert settled(stock, tmp_path) == 0


def test_a_persons_own_payments_are_not_an_agents_to_resume(buyer: Terminal, shop: MockServer) -> None:
    buyer.env |= {"TRADE_BASE_URL": shop.url, "TRADE_API_KEY": "mock_full_house"}
    shop.add_fault("status", paid="only", status=500)
    assert buyer("market", "metrics", "--max-price", "0.06").code == 14
    shop.clear_faults()
    payment = buyer("pay", "history", "-o", "json").json[0]["id"]
    with toolbox(buyer.home, shop, wallet=buyer.env["TRADE_WALLET_KEY"]) as box:
        assert refused(box, "payments", action="resume", id=payment) == "not_yours"
        assert refused(box, "payments", action="resume", id="pay_1") == "no_such_payment"


# Approvals that do not fit


def test_an_expired_approval(box: Box, person: Person, clock: Clock, stock: MockServer, tmp_path: Path) -> None:
    code = box.call("market_buy", BUY)["code"]
    clock.time += VALID
    with pytest.raises(Exception, match="has expired"):
        person.approve(code)
    assert box.call("market_buy", BUY)["code"] != code
    again = box.call("market_buy", BUY)
    assert again["code"] != code
    person.approve(again["code"])
    clock.time += VALID
    assert box.call("market_buy", BUY)["code"] not in (code, again["code"])
    assert settled(stock, tmp_path) == 0


def test_a_foreign_approval(box: Box, person: Person, tmp_path: Path, clock: Clock) -> None:
    code = box.call("market_buy", BUY)["code"]
    person.approve(code)
    with MockServer(signals="scripted") as elsewhere, toolbox(tmp_path, elsewhere, now=clock) as other:
        assert other.call("market_buy", BUY)["status"] == "approval_required"


def test_an_altered_call(box: Box, person: Person, stock: MockServer, tmp_path: Path, agent: str) -> None:
    code = box.call("market_buy", BUY)["code"]
    person.approve(code)
    for more in ({"purchase": "other"}, {"data": "top", "sort_by": "ROI"}, {"data": "prices", "tokens": ["ETH"]}):
        assert box.call("market_buy", {**BUY, **more})["code"] != code
    update = {"operation": "update", "id": agent, "max_positions": 3}
    assert box.call("agent_change", update)["status"] == "approval_required"
    assert settled(stock, tmp_path) == 0
    assert changes(stock, agent) == 0


def test_an_agent_that_was_changed_meanwhile(box: Box, person: Person, trade_client: TradeClient, agent: str) -> None:
    update = {"operation": "update", "id": agent, "max_positions": 3}
    code = box.call("agent_change", update)["code"]
    person.approve(code)
    trade_client.agents.update(agent, max_positions=4)
    assert box.call("agent_change", update)["code"] != code
    assert box.call("agent_change", update)["changes"] == {"max_positions": {"before": 4, "after": 3}}
    assert trade_client.agents.get(agent).max_positions == 4


def test_a_used_approval(box: Box, person: Person, stock: MockServer, agent: str) -> None:
    update = {"operation": "update", "id": agent, "max_positions": 3}
    code = box.call("agent_change", update)["code"]
    person.approve(code)
    assert box.call("agent_change", update)["status"] == "done"
    assert refused(box, "agent_change", **update) == "nothing_to_change"
    assert changes(stock, agent) == 1


def test_a_create_is_repeated_only_with_a_new_approval(
    box: Box, person: Person, trade_client: TradeClient, clock: Clock
) -> None:
    wallet = next(one for one in trade_client.wallets.list() if one.chain_id == 8453)
    create = {"operation": "create", "name": "twin", "wallet_id": wallet.id, "chain": "base"}
    assert refused(box, "agent_change", **{**create, "wallet_id": "wal_1"}) == "not_found"
    person.approve(box.call("agent_change", create)["code"])
    made = box.call("agent_change", create)["id"]
    with pytest.raises(Fault) as caught:
        box.call("agent_change", create)
    assert (caught.value.code, caught.value.about) == ("approval_used", {"outcome": {"agent": made}})
    clock.time += VALID
    assert box.call("agent_change", create)["status"] == "approval_required"
    assert [one.id for one in trade_client.agents.list() if one.name == "twin"] == [made]


def test_a_refusal_holds(box: Box, person: Person, agent: str, stock: MockServer) -> None:
    delete = {"operation": "delete", "id": agent}
    code = box.call("agent_change", delete)["code"]
    person.refuse(code)
    assert refused(box, "agent_change", **delete) == "approval_refused"
    assert changes(stock, agent) == 0


def test_an_active_agent_is_not_even_prepared(box: Box, stock: MockServer, agent: str, person: Person) -> None:
    stock.start_agent(agent)
    assert refused(box, "agent_change", operation="delete", id=agent) == "still_active"
    assert not person.all()


@pytest.mark.long
def test_a_flood_hides_nothing(box: Box, person: Person) -> None:
    codes = [box.call("market_buy", {**BUY, "purchase": f"p{n}"})["code"] for n in range(8)]
    update = {"operation": "update", "id": box.call("agents", {"limit": 1})["items"][0]["id"]}
    codes += [box.call("agent_change", {**update, "max_positions": n})["code"] for n in range(50, 62)]
    assert len(codes) == MOST_PENDING
    assert refused(box, "agent_change", **update, max_positions=90) == "too_many_pending"
    person.refuse(codes[0])
    assert box.call("agent_change", {**update, "max_positions": 90})["status"] == "approval_required"


# Two at once, and the end of a process in the middle


def at_once(clock: InStep, *works: Callable[[], Any]) -> list[Any]:
    clock.barrier = barrier = threading.Barrier(len(works))
    found: list[Any] = [None] * len(works)

    def work(number: int) -> None:
        try:
            found[number] = works[number]()
        except Fault as fault:
            found[number] = fault.code
        barrier.abort()  # nobody waits for who has ended

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.barrier = None
    return found


def test_two_clients_with_one_approval_change_once(
    box: Box, person: Person, stock: MockServer, agent: str, tmp_path: Path, clock: InStep
) -> None:
    update = {"operation": "update", "id": agent, "max_positions": 10}
    code = box.call("agent_change", update)["code"]
    person.approve(code)
    with toolbox(tmp_path, stock, now=clock) as other:
        found = at_once(clock, lambda: box.call("agent_change", update), lambda: other.call("agent_change", update))
    assert sum(isinstance(one, dict) for one in found) == 1, found
    assert changes(stock, agent) == 1


def test_two_clients_with_one_approval_pay_once(
    box: Box, person: Person, stock: MockServer, tmp_path: Path, clock: InStep
) -> None:
    person.approve(box.call("market_buy", BUY)["code"])
    with toolbox(tmp_path, stock, now=clock) as other:
        at_once(clock, lambda: box.call("market_buy", BUY), lambda: other.call("market_buy", BUY))
    assert box.call("market_buy", BUY)["again"]
    assert settled(stock, tmp_path) == 1


def test_a_change_that_was_begun_is_never_begun_again(
    box: Box, person: Person, agent: str, stock: MockServer, tmp_path: Path, clock: Clock
) -> None:
    """The process ended between the start of a change and its answer."""
    update = {"operation": "update", "id": agent, "max_positions": 3}
    code = box.call("agent_change", update)["code"]
    person.approve(code)
    approvals = Approvals(approvals_file(tmp_path / "ledger.sqlite3"))
    action = approvals.get(code)
    assert action is not None
    assert approvals.begin(action, clock())
    assert not approvals.begin(action, clock())
    assert refused(box, "agent_change", **update) == "approval_unfinished"
    assert changes(stock, agent) == 0


def broken_once(it_happened: Callable[[], bool], home: Path) -> tuple[Callable[[], float], Callable[[], None]]:
    """A clock that makes the file of approvals unusable when it is read after that, and what repairs the file."""
    file = approvals_file(home / "ledger.sqlite3")
    aside = file.with_name("aside")

    def now() -> float:
        if it_happened() and not aside.exists():
            file.rename(aside)
            file.mkdir()
        return Clock()()

    def repair() -> None:
        file.rmdir()
        aside.rename(file)

    return now, repair


def test_a_change_whose_end_cannot_be_written_down_is_answered_and_not_begun_again(
    tmp_path: Path, person: Person, stock: MockServer, agent: str
) -> None:
    update = {"operation": "update", "id": agent, "max_positions": 3}
    now, repair = broken_once(lambda: changes(stock, agent) == 1, tmp_path)
    with toolbox(tmp_path, stock, now=now) as box:
        person.approve(box.call("agent_change", update)["code"])
        assert box.call("agent_change", update)["status"] == "done"
        repair()
    with toolbox(tmp_path, stock, now=person.now) as box:
        (begun,) = person.all()
        assert begun.state == "started"
        assert refused(box, "agent_change", **update) == "nothing_to_change"
    assert changes(stock, agent) == 1


def test_a_purchase_whose_end_cannot_be_written_down_is_answered_and_paid_once(
    tmp_path: Path, person: Person, stock: MockServer
) -> None:
    now, repair = broken_once(lambda: settled(stock, tmp_path) == 1, tmp_path)
    with toolbox(tmp_path, stock, now=now) as box:
        person.approve(box.call("market_buy", BUY)["code"])
        assert box.call("market_buy", BUY)["status"] == "done"
        repair()
    assert [one.state for one in person.all()] == ["started"]
    with toolbox(tmp_path, stock, now=person.now) as box:
        assert box.call("market_buy", BUY)["again"]
    assert settled(stock, tmp_path) == 1


def test_a_change_whose_answer_is_lost_is_told_as_unknown(
    box: Box, person: Person, faulty: MockServer, agent: str
) -> None:
    delete = {"operation": "delete", "id": agent}
    person.approve(box.call("agent_change", delete)["code"])
    faulty.add_fault("reset", route="/v1/agents/{agent_id}", method="DELETE")
    with pytest.raises(Fault) as caught:
        box.call("agent_change", delete)
    assert "list the agents" in caught.value.next_step
    faulty.clear_faults()
    assert [one.state for one in person.all()] == ["unknown"]
    assert refused(box, "agent_change", **delete) in ("approval_unfinished", "not_found")


def test_what_surely_changed_nothing_may_be_begun_again(
    box: Box, person: Person, faulty: MockServer, agent: str
) -> None:
    update = {"operation": "update", "id": agent, "max_positions": 7}
    person.approve(box.call("agent_change", update)["code"])
    faulty.add_fault("status", route="/v1/agents/{agent_id}", method="PATCH", status=422, count=1)
    assert refused(box, "agent_change", **update) == "validation_error"
    assert box.call("agent_change", update)["status"] == "done"


# The file


@posix
def test_a_file_that_others_can_write_is_not_believed(box: Box, person: Person, tmp_path: Path) -> None:
    person.approve(box.call("market_buy", BUY)["code"])
    file = tmp_path / "ledger.sqlite3-approvals"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o660)
    assert refused(box, "market_buy", **BUY) == "approvals_exposed"
    file.chmod(0o600)
    assert box.call("market_buy", BUY)["status"] == "done"


def test_a_damaged_file_stops_everything(box: Box, tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3-approvals"
    file.write_bytes(b"no database" * 100)
    file.chmod(0o600)
    assert refused(box, "market_buy", **BUY) == "approvals_unusable"


def test_tools_have_no_way_to_decide() -> None:
    """Only `trade approve` makes a `Decisions`."""
    package = Path(__file__).parents[2] / "src" / "tradesdk_cli"
    users = [file.relative_to(package).as_posix() for file in package.rglob("*.py") if "Decisions" in file.read_text()]
    assert sorted(users) == ["commands/approve.py", "mcp/approvals.py"]
    assert not hasattr(Approvals, "decide")
    assert EVERYTHING.auto == 0


# trade approve


@pytest.fixture
def prepared(trade: Terminal, stock: MockServer) -> Iterator[tuple[Terminal, Box, str]]:
    """A terminal, a session of an agent, and the code of a purchase."""
    with toolbox(trade.home, stock) as box:
        yield trade, box, box.call("market_buy", BUY)["code"]


def test_the_screen_shows_all_of_it(prepared: tuple[Terminal, Box, str], agent: str) -> None:
    trade, box, code = prepared
    change = box.call("agent_change", {"operation": "update", "id": agent, "max_positions": 9})["code"]
    run = trade("approve", code, answers="y\n", env={"NO_COLOR": "1"})
    assert run.code == 0
    assert run.err.startswith("  where     ")
    assert run.err.count("buy aggregate-metrics") == 1, "the question says it"
    assert '  purchase  "mcp/totals"\n' in run.err
    assert "Let the client buy aggregate-metrics for $0.06? [y/N] approved" in run.err
    assert box.call("market_buy", BUY)["status"] == "done"
    run = trade("approve", change.lower(), answers="y\n")
    shown = [line.split(maxsplit=1) for line in run.err.splitlines()]
    assert shown[1:3] == [["id", f'"{agent}"'], ["max_positions", "2 → 9"]], "what changes comes first"
    assert ["name", '"mine"'] in shown
    assert trade("approve").notes == [{"note": "no actions to approve"}]
    listed = trade("approve", "--all", "-o", "json").json
    assert [(one["code"], one["state"]) for one in listed] == [(change, "approved"), (code, "done")]


def test_no_is_not_a_refusal_and_a_refusal_is_final(prepared: tuple[Terminal, Box, str]) -> None:
    trade, box, code = prepared
    run = trade("approve", code, answers="n\n")
    assert (run.code, "nothing was approved" in run.err) == (1, True)
    assert [one["code"] for one in trade("approve", "-o", "json").json] == [code]
    assert trade("approve", "--refuse", code, "-o", "json").json["state"] == "refused"
    assert refused(box, "market_buy", **BUY) == "approval_refused"
    run = trade("approve", code, answers="y\n")
    assert (run.code, "is refused already" in run.err) == (7, True)


def test_nobody_approves_through_a_pipe(prepared: tuple[Terminal, Box, str]) -> None:
    trade, box, code = prepared
    for argv in (["approve", code], ["approve", code, "--yes"], ["approve", "--yes", code]):
        assert trade(*argv, stdin="y\n").code == 2
    assert box.call("market_buy", BUY)["status"] == "approval_required"


def test_codes_that_are_none(trade: Terminal) -> None:
    for code in ("NOPE2345", "\x1b[31m", "../x"):
        run = trade("approve", code, answers="y\n", env={"NO_COLOR": "1"})
        assert (run.code, "\x1b" in run.err) == (6, False)
    assert trade("approve", "A", "--refuse", "B").code == 2


def test_all_decides_nothing(prepared: tuple[Terminal, Box, str]) -> None:
    trade, _, code = prepared
    for argv in (["--all", "--refuse", code], [code, "--all"]):
        run = trade("approve", *argv, answers="y\n")
        assert (run.code, "--all is for the list" in run.err) == (2, True)
    assert [one["state"] for one in trade("approve", "-o", "json").json] == ["pending"]


@pytest.mark.long
def test_a_world_that_is_reset_forgets_approvals(trade: Terminal) -> None:
    with toolbox(trade.home, None) as box:
        code = box.call("market_buy", BUY)["code"]
    assert [one["code"] for one in trade("--mock", "approve", "-o", "json").json] == [code]
    assert trade("--mock", "mock", "reset", "--yes").code == 0
    assert trade("--mock", "approve", "-o", "json").json == []


# Whose yes, for what, under which limit


def test_what_auto_spend_let_through_is_no_approval_elsewhere(
    tmp_path: Path, faulty: MockServer, person: Person
) -> None:
    """Its outcome is unknown, so another server could pay it."""
    faulty.add_fault("status", route="/v1/aggregate-metrics", paid="only", status=503)
    with toolbox(tmp_path, faulty, Scope(spend=100_000, auto=100_000), now=person.now) as generous:
        with pytest.raises(Fault) as caught:
            generous.call("market_buy", BUY)
        payment = caught.value.about["payment"]["id"]
    faulty.clear_faults()
    with toolbox(tmp_path, faulty, Scope(spend=100_000), now=person.now) as strict:
        assert refused(strict, "payments", action="resume", id=payment) == "not_yours"
        person.approve(strict.call("market_buy", BUY)["code"])
        assert strict.call("market_buy", BUY)["payment"] == payment
    assert settled(faulty, tmp_path) == 1


def test_a_paid_answer_costs_no_limit_and_needs_no_yes(tmp_path: Path, stock: MockServer, person: Person) -> None:
    with toolbox(tmp_path, stock, Scope(spend=100_000, auto=100_000), now=person.now) as first:
        payment = first.call("market_buy", BUY)["payment"]
    with toolbox(tmp_path, stock, Scope(spend=1), now=person.now) as other:
        assert other.call("market_buy", BUY)["again"]
        assert other.call("payments", {"action": "resume", "id": payment})["again"]
        assert other.limit.spent == 0
        assert refused(other, "market_buy", **{**BUY, "purchase": "new"}) == "over_session_limit"


@pytest.mark.long
@each_of("change", [{"name": "another"}, {"min_confidence": 0.9}, {"risk": {"stop_loss_pct": 3}}])
def test_an_agent_that_changed_in_any_field_is_asked_about_again(
    box: Box, person: Person, trade_client: TradeClient, agent: str, clock: Clock, change: dict[str, Any]
) -> None:
    both: tuple[dict[str, Any], ...] = (
        {"operation": "delete", "id": agent},
        {"operation": "update", "id": agent, "max_positions": 3},
    )
    codes = [box.call("agent_change", asked)["code"] for asked in both]
    for code in codes:
        person.approve(code)
    trade_client.agents.update(agent, **change)
    for asked in both:
        assert box.call("agent_change", asked)["code"] not in codes
    clock.time += VALID
    assert trade_client.agents.get(agent).max_positions == 2


@pytest.mark.long
def test_a_refusal_holds_however_it_is_written(
    tmp_path: Path, stock: MockServer, box: Box, person: Person, agent: str, clock: Clock
) -> None:
    """Under another name, by address, in another order, with what changes nothing, or a number that is nearly it."""
    listed = box.call("market_tokens", {"search": "brett"})["items"]
    address = next(one["tokenAddress"] for one in listed if one["untrusted"]["symbol"] == "BRETT")
    buy: dict[str, Any] = {"data": "signals", "tokens": ["BRETT", "AERO"], "purchase": "a", "limit": 5}
    person.refuse(box.call("market_buy", buy)["code"])
    spellings: list[dict[str, Any]] = [
        {"purchase": "b"},
        {"tokens": ["aero", "Brett"]},
        {"tokens": [address, "AERO"]},
        {"tokens": [address.lower(), "aero"], "purchase": "c"},
        {"limit": 6},
    ]
    with toolbox(tmp_path, stock, Scope(spend=500_000, auto=500_000), now=clock) as auto:
        for spelling in spellings:
            assert refused(box, "market_buy", **{**buy, **spelling}) == "approval_refused", spelling
            assert refused(auto, "market_buy", **{**buy, **spelling}) == "approval_refused", spelling
    update = {"operation": "update", "id": agent, "min_confidence": 0.9}
    person.refuse(box.call("agent_change", update)["code"])
    for spelling in ({"min_confidence": 0.9001}, {"max_positions": 2}, {"max_positions": 2, "name": "mine"}):
        assert refused(box, "agent_change", **{**update, **spelling}) == "approval_refused", spelling
    for other in ({"min_confidence": 0.4}, {"max_positions": 3}):
        assert box.call("agent_change", {**update, **other})["status"] == "approval_required"
    clock.time += VALID
    assert box.call("agent_change", update)["status"] == "approval_required"


@each_of(
    ("asked", "env", "code"),
    [
        ({"data": "prices", "tokens": ["NOSUCHTOKEN"]}, {}, "unknown_token"),
        ({"data": "metrics"}, {"TRADE_BUDGET_TOTAL": "0.01"}, "over_budget"),
        ({"data": "metrics"}, {"TRADE_WALLET_KEY": ""}, "no_signer"),
    ],
)
def test_what_is_refused_anyway_is_refused_before_a_person_is_asked(
    tmp_path: Path, stock: MockServer, asked: dict[str, Any], env: dict[str, str], code: str
) -> None:
    with toolbox(tmp_path, stock, env=env) as box:
        assert refused(box, "market_buy", **asked, purchase="a") == code
        assert not box.approvals.all(0)


@pytest.mark.long
def test_a_keystore_without_its_password_says_so(tmp_path: Path, stock: MockServer, person: Person) -> None:
    keystore = tmp_path / "keystore.json"
    create_keystore(keystore, "secret", wallet_of(tmp_path), work=2)
    env = {"TRADE_WALLET_KEY": "", "TRADE_KEYSTORE": str(keystore)}
    with toolbox(tmp_path, stock, env=env, now=person.now) as box:
        person.approve(box.call("market_buy", BUY)["code"])
        with pytest.raises(Fault) as caught:
            box.call("market_buy", BUY)
    assert caught.value.code == "configuration"
    assert "needs a password" in caught.value.message
    assert "TRADE_KEYSTORE_PASSWORD_FILE" in (caught.value.person or "")
    assert [one.state for one in person.all()] == ["approved"], "nothing was sent, and it may be begun again"
