"""What the demo does: every part of both APIs once, on a mock whose clock stands still, each answer checked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tradesdk_cli.demo.common import START, check, private_key
from tradesdk_cli.demo.live import live_stream
from tradesdk_cli.demo.paid import paid_data
from tradesdk_cli.demo.screen import Screen
from tradesdk_cli.mockworld import mock_server_class
from tradesdk_cli.output.columns import Column
from tradesdk_cli.retries import LastReason, Verbose, heard_by
from tradesdk_cli.session import wire_all

if TYPE_CHECKING:
    from tradesdk import Signal, TradeClient
    from tradesdk_cli.output.printer import Output
    from tradesdk_mock import MockServer

TENANT = "demo"
BASE = 8453
CONFIDENCE = 0.8
TRADES = 250
HASTY = "mock_full_free_hasty"


def tell(out: Output, seed: int) -> None:
    """Runs the whole demo and prints it.

    Raises:
        DemoFailed: an answer was wrong.
    """
    began = time.perf_counter()
    server_class = mock_server_class()
    from tradesdk import TradeError

    # Without a handler of ours, Python would print warnings of the log among the steps.
    with heard_by(Verbose(out, None) if out.settings.verbose else LastReason()):
        try:
            _tell(Screen(out), server_class, seed)
        except TradeError as error:
            check(False, str(error))
    out.note(f"took {time.perf_counter() - began:.1f} s")


def _tell(screen: Screen, server_class: type[MockServer], seed: int) -> None:
    from tradesdk import TradeClient
    from tradesdk_mock import MockClock

    clock = MockClock(START)
    with server_class(seed=seed, clock=clock) as server:
        server.populate(TENANT, trades=TRADES)
        screen.title(f"trade demo: real calls to the mock service inside this process (seed {seed})")
        with TradeClient(api_key=f"mock_full_{TENANT}", base_url=server.url, clock=clock) as client:
            _account(screen, client)
            wallet_id = _wallet(screen, client, seed)
            _agents(screen, client, server, wallet_id)
            _trades(screen, client)
            signal = _signals(screen, client)
            live_stream(screen, client, server)
        _rate_limit(screen, server)
        paid_data(screen, server, seed, signal)
        calls = len(server.journal())
        screen.end(
            f"All checks passed: {calls} requests, every answer checked.",
            (
                ("trade --mock agents list", "another world, kept between commands"),
                ("trade --mock signals latest --chain base", "what the market says"),
                ("trade --mock signals stream --chain base", "the same as it happens, until Ctrl-C"),
                ("trade --mock market prices ETH --max-price 0.05", "buy with play money"),
                ("trade mock serve", "the mock for your own bot's tests"),
                ("trade --help", "all commands"),
            ),
            seed=seed,
            requests=calls,
        )


def _account(screen: Screen, client: TradeClient) -> None:
    screen.step("Account and plan")
    screen.call("account = client.account.get(); usage = client.account.usage()")
    account, usage = client.account.get(), client.account.usage()
    check(account.plan == "pro", f"the plan is {account.plan}, not pro")
    check(account.api_key_last4 == TENANT[-4:], "the account names another key")
    check(usage.requests.used >= 1, "the first request was not counted")
    limit = client.rate_limit
    check(limit is not None and limit.limit == 300, "the rate limit of the plan pro is not 300 a minute")
    screen.result(f"{account.email}, plan {account.plan}, key ending in {account.api_key_last4}")
    screen.result(f"{usage.agents.used} of {usage.agents.limit} agents, 300 requests a minute")


def _wallet(screen: Screen, client: TradeClient, seed: int) -> str:
    from tradesdk import InvalidSignatureError, LocalSigner

    screen.step("Connect a wallet by proving that it is yours")
    screen.call("signer = LocalSigner.from_key(private_key)")
    screen.call('wallet = client.wallets.connect_with(signer, label="demo")')
    signer = LocalSigner.from_key(private_key(seed))
    wallet = client.wallets.connect_with(signer, label="demo")
    check(wallet.address == signer.address, "the wallet has another address than its signer")
    check(wallet.chain_id == BASE, "the wallet is on another chain than Base")
    screen.result(f"{wallet.address} is {wallet.id} on Base")
    screen.call("wallets = list(client.wallets.list())")
    wallets = list(client.wallets.list())
    check(any(known.id == wallet.id for known in wallets), "the new wallet is not listed")
    screen.result(f"{len(wallets)} wallets are connected")
    screen.call('client.wallets.connect(address=wallet.address, chain_id=8453, label="forged", signature=forged)')
    forged = "0x" + "11" * 64 + "1b"
    try:
        client.wallets.connect(address=wallet.address, chain_id=BASE, label="forged", signature=forged)
    except InvalidSignatureError as error:
        screen.result(f"a forged signature is refused: {error.status} {error.service_code}")
    else:
        check(False, "a forged signature was accepted")
    return wallet.id


_AGENT_COLUMNS = (
    Column("id", "id"),
    Column("name"),
    Column("status", "state"),
    Column("created_at", "time", optional=True),
)


def _agents(screen: Screen, client: TradeClient, server: MockServer, wallet_id: str) -> None:
    from tradesdk import ConflictError, NotFoundError, Risk

    screen.step("Agents: create, change, list, delete")
    screen.call("risk = Risk(stop_loss_pct=5, take_profit_pct=12)")
    screen.call('agent = client.agents.create(name="momentum", wallet_id=wallet.id, chain_id=8453, risk=risk)')
    risk = Risk(stop_loss_pct=5, take_profit_pct=12)
    agent = client.agents.create(name="momentum", wallet_id=wallet_id, chain_id=BASE, risk=risk)
    check(agent.status == "idle", f"a new agent is {agent.status}, not idle")
    check((agent.min_confidence, agent.max_positions) == (0.75, 5), "the defaults of a new agent are not 0.75 and 5")
    screen.result(f"{agent.id} is {agent.status}; the service chose confidence 0.75 and 5 positions")

    screen.call("agent = client.agents.update(agent.id, risk=Risk(stop_loss_pct=4))")
    changed = client.agents.update(agent.id, risk=Risk(stop_loss_pct=4))
    check(changed.risk.stop_loss_pct == 4, "the new stop loss was not taken")
    check(changed.risk.take_profit_pct == 12, "changing the stop loss also changed the take profit")
    screen.result("stop loss 4 %, and the take profit is still 12 %: only what is sent changes")

    screen.call("agents = list(client.agents.list())")
    listed = list(client.agents.list())
    check(any(found.id == agent.id for found in listed), "the new agent is not listed")
    screen.table(_AGENT_COLUMNS, wire_all(listed[:4]))

    screen.call("client.agents.delete(agent.id)  # while it is running")
    server.start_agent(agent.id)
    try:
        client.agents.delete(agent.id)
    except ConflictError as error:
        screen.result(f"refused: {error.status} {error.service_code}: {error.message}", "yellow")
    else:
        check(False, "an active agent could be deleted")
    screen.call("client.agents.delete(agent.id)  # after it was stopped")
    server.stop_agent(agent.id)
    client.agents.delete(agent.id)
    screen.call("client.agents.get(agent.id)")
    try:
        client.agents.get(agent.id)
    except NotFoundError:
        screen.result("it is gone: 404")
    else:
        check(False, "the deleted agent is still there")


def _trades(screen: Screen, client: TradeClient) -> None:
    screen.step(f"Page through {TRADES} trades")
    screen.call("pages = list(client.trades.list().pages())")
    pages = list(client.trades.list().pages())
    trades = [trade for page in pages for trade in page.data]
    check(len(trades) == TRADES, f"there are {len(trades)} trades, not {TRADES}")
    check(len({trade.id for trade in trades}) == TRADES, "a trade came twice")
    check([len(page.data) for page in pages] == [100, 100, 50], "the pages are not of 100, 100 and 50")
    screen.result(f"{len(trades)} trades on {len(pages)} pages, none of them twice")

    screen.call('still_open = list(client.trades.list(status="open"))')
    screen.call('closed = list(client.trades.list(status="closed"))')
    still_open = list(client.trades.list(status="open"))
    closed = list(client.trades.list(status="closed"))
    check(all(trade.pnl_usd is None and trade.closed_at is None for trade in still_open), "an open trade has a result")
    results = [trade.pnl_usd for trade in closed if trade.pnl_usd is not None]
    check(len(results) == len(closed), "a closed trade has no result")
    check({trade.id for trade in (*still_open, *closed)} == {trade.id for trade in trades}, "the filters lose trades")
    screen.result(f"{len(still_open)} open, {len(closed)} closed")
    if results:
        won = sum(result > 0 for result in results)
        screen.result(f"{100 * won / len(results):.0f} % won, together {sum(results):+,.2f} USD")


_SIGNAL_COLUMNS = (
    Column("token_symbol", title="token"),
    Column("direction", "state", title="side"),
    Column("confidence", "number"),
    Column("price_usd", "price"),
    Column("timestamp", "time", optional=True, title="time"),
)


def _signals(screen: Screen, client: TradeClient) -> Signal:
    screen.step(f"Signals with a confidence of {CONFIDENCE} and more")
    screen.call(f"signals = client.signals.latest(chain=8453, min_confidence={CONFIDENCE}, limit=100)")
    signals = client.signals.latest(chain=BASE, min_confidence=CONFIDENCE, limit=100)
    check(bool(signals), "there are no signals")
    check(all(signal.confidence >= CONFIDENCE for signal in signals), "a signal is less certain than was asked for")
    check(all(signal.chain_id == BASE for signal in signals), "a signal is of another chain")
    screen.result(f"{len(signals)} of them; the first three:")
    screen.table(_SIGNAL_COLUMNS, wire_all(signals[:3]))
    return signals[0]


def _rate_limit(screen: Screen, server: MockServer) -> None:
    """One request more than the plan allows, on a key of its own; the client's waiting moves the mock's clock."""
    from tradesdk import TradeClient

    screen.step("Run into a rate limit and wait it out")
    screen.call(f'hasty = TradeClient(api_key="{HASTY}", throttle=False)')
    screen.call("for _ in range(61): hasty.account.get()  # the plan free has 60 a minute")
    before = server.clock.now()
    began = time.perf_counter()
    with TradeClient(api_key=HASTY, base_url=server.url, clock=server.clock, throttle=False) as hasty:
        for _ in range(61):
            check(hasty.account.get().plan == "free", "the plan is not free")
    waited, really = server.clock.now() - before, time.perf_counter() - began
    answers: list[Any] = [entry.status for entry in server.journal("hasty")]
    check(answers == [200] * 60 + [429, 200], f"61 requests were answered with {_runs(answers)}, not 60x 200, 429, 200")
    check(1 <= waited <= 75, f"the client waited {waited:.0f} s for a window of a minute")
    screen.result(f"answers: {_runs(answers)}; with its throttle the client would not have been refused")
    check(really < waited, "the wait took real time")
    screen.result("the client waited as long as it was told, on the mock's clock: no time passed here")


def _runs(statuses: list[Any]) -> str:
    """`[200, 200, 429]` as `2x 200, 429`."""
    runs: list[tuple[Any, int]] = []
    for status in statuses:
        if runs and runs[-1][0] == status:
            runs[-1] = (status, runs[-1][1] + 1)
        else:
            runs.append((status, 1))
    return ", ".join(f"{count}x {status}" if count > 1 else str(status) for status, count in runs)
