"""The tools: from checked arguments to a result, with the public clients of the SDK."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from tradesdk import APIError, NotFoundError, PaymentOutcomeUnknownError, PaymentStage, TradeError
from tradesdk_cli.choices import CHAINS
from tradesdk_cli.errors import CliError
from tradesdk_cli.mcp.answers import NOTE, fault_of, finished, inside, marked, opened, own, page
from tradesdk_cli.mcp.approvals import Action, Approvals, approvals_file
from tradesdk_cli.mcp.arguments import body_of, call_of, checked, moment, walk_of
from tradesdk_cli.mcp.catalog import FEW_ROWS, MOST_ROWS, Scope, Tool, tools
from tradesdk_cli.mcp.topics import topic
from tradesdk_cli.mcp.writing import SessionLimit, Writes
from tradesdk_cli.output.formats import flatten
from tradesdk_cli.pay.calls import verb_of
from tradesdk_cli.pay.rows import brief, spending_fields
from tradesdk_cli.run import wire
from tradesdk_cli.text import plain_dollars, to_json, usd

if TYPE_CHECKING:
    from tradesdk import AsyncMarketClient, AsyncTradeClient, MarketResult, Payment
    from tradesdk_cli.pay.calls import Call
    from tradesdk_cli.run import Run
    from tradesdk_cli.wallet import Wallet

T = TypeVar("T")

PREFIX = "mcp/"
"""Prefix of names of AI clients' purchases, so that they cannot use names of other jobs."""
AT_ONCE = 8
"""Maximum of concurrent reads, and of concurrent writes; more wait."""
WITHIN = 50.0
"""Seconds within which every tool answers: clients time out after 60."""
_READ_WITHIN, _CHANGE_WITHIN = 30.0, 45.0
"""Seconds for a request with its retries."""
_LIST_FOR = 3600.0
"""Seconds for which the list of tokens is cached."""
_LISTS = ("agents", "trades", "positions")
_MOST_AGENTS = 100
_MOST_TOKENS = 500
_LARGEST = 64_000
"""Maximum characters of a result."""
_MOVING = ("stats", "updated_at")
"""Fields of an agent that change by themselves. An approval stays valid then."""
_SORTS = {"pnl": "total_pnl_usd", "win_rate": "win_rate_pct", "trades": "total_trades"}

Answer = dict[str, Any]


class Toolbox:
    """The tools of one server process, which is one session. An async context manager, for one event loop."""

    def __init__(self, run: Run, scope: Scope, *, now: Callable[[], float] = time.time, within: float = WITHIN) -> None:
        self.scope = scope
        self.within = within
        self.limit = SessionLimit(scope.spend)
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools(scope)}
        self.approvals = Approvals(approvals_file(run.ledger_file))
        self._run = run
        self._now = now
        self._limiters = [anyio.CapacityLimiter(AT_ONCE) for _ in range(2)]
        self._writes = Writes()
        self._opening = anyio.Lock()
        self._opened: dict[str, Any] = {}
        self._wallet: Wallet | None = None
        self._symbols: dict[str, str] = {}
        self._symbols_at: float | None = None

    async def __aenter__(self) -> Toolbox:
        await self._writes.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._writes.__aexit__()
        with anyio.CancelScope(shield=True):
            for client in reversed(self._opened.values()):
                await client.aclose()

    async def finish(self) -> None:
        """Waits for requests under way; nothing is sent afterwards."""
        await self._writes.finish()

    async def call(self, name: str, arguments: Mapping[str, Any], *, within: float | None = None) -> Answer:
        """The result of a tool, or a `Fault` with the reason and the next step."""
        tool = self.tools.get(name)
        if tool is None:
            raise own("unknown_tool", f"this session has no such tool; it has {', '.join(self.tools)}")
        given = checked(tool, arguments)
        writes = name in ("market_buy", "agent_change") or given.get("action") == "resume"
        with anyio.move_on_after(self.within if within is None else within):
            async with self._limiters[writes]:
                try:
                    answer = self._list(name, given) if name in _LISTS else getattr(self, f"_{name}")(given)
                    found = finished(await answer, given.get("fields", ()))
                    if len(to_json(found)) > _LARGEST:
                        raise own("answer_too_large")
                    return found
                except Exception as error:
                    raise fault_of(error, self._run.settings.program) from None
        if not writes:
            raise own("timeout")
        raise own("still_under_way", retryable=True, about={} if name == "agent_change" else {"charged": "unknown"})

    # Clients: made at the first call, so that the server starts at once and reports missing settings later

    async def _client(self, name: str, make: Callable[[Any], Any]) -> Any:
        def opened() -> None:
            if self._run.settings.mock and "http" not in self._opened:
                self._opened["http"] = self._run.mock.transport().async_http_client()
            self._opened[name] = make(self._opened.get("http"))

        async with self._opening:
            if name not in self._opened:
                await anyio.to_thread.run_sync(opened)
        return self._opened[name]

    async def _trade(self, within: float = _READ_WITHIN) -> AsyncTradeClient:
        client: AsyncTradeClient = await self._client("trade", self._run.async_client)
        return client.with_options(deadline=within)

    async def _market(self) -> AsyncMarketClient:
        def make(http: Any) -> AsyncMarketClient:
            from tradesdk_cli.pay.checkout import async_market_client

            self._wallet = self._run.wallet() if self.scope.spend else None
            return async_market_client(self._run, self._wallet, http)

        client: AsyncMarketClient = await self._client("market", make)
        return client

    async def _ask(self, step: Callable[..., T], *given: Any) -> T:
        """A step of the approvals with the current time, in a thread because it blocks. A refused action is a fault."""
        found = await anyio.to_thread.run_sync(partial(step, *given, self._now()))
        if isinstance(found, Action) and found.state == "refused":
            raise own("approval_refused")
        return found

    # Reads

    async def _account(self, given: Answer) -> Answer:
        client = await self._trade()
        wallets = await client.wallets.list(limit=MOST_ROWS).page()
        rows = [marked(wire(wallet)) for wallet in wallets.data]
        if given.get("balances"):
            for row, wallet in zip(rows, wallets.data, strict=True):
                row["balance"] = marked(wire(await client.wallets.balance(wallet.id)))
        answer = {
            "account": marked(wire(await client.account.get())),
            "usage": marked(wire(await client.account.usage())),
            "wallets": rows,
            "note": NOTE,
        }
        if wallets.next_cursor is not None:
            answer["more"] = "there are more wallets than are listed here"
        return answer

    async def _list(self, name: str, given: Answer) -> Answer:
        """A list by its name in the SDK, with filters as arguments."""
        resource = getattr(await self._trade(), name)
        if "id" in given:
            return {"item": wire(await resource.get(given["id"]))}
        filters = {key: given[key] for key in given if key not in ("limit", "cursor", "fields")}
        return _page(await resource.list(**walk_of(given), **filters).page())

    async def _results(self, given: Answer) -> Answer:
        client = await self._trade()
        summaries = [summary async for summary in client.agents.list(max_items=_MOST_AGENTS + 1)]
        agents = []
        for summary in summaries[:_MOST_AGENTS]:
            try:
                agents.append(wire(await client.agents.get(summary.id)))
            except NotFoundError:  # deleted meanwhile
                continue
        if given.get("losing"):
            agents = [agent for agent in agents if _stat(agent, "total_pnl_usd") < 0]
        name = _SORTS[given.get("sort", "pnl")]
        agents.sort(key=lambda agent: _stat(agent, name), reverse=not given.get("losing"))
        more = {"incomplete": f"only {_MOST_AGENTS} agents were read"} if len(summaries) > _MOST_AGENTS else {}
        return page(agents[: given.get("limit", FEW_ROWS)], None, total=len(agents), **more)

    async def _signals(self, given: Answer) -> Answer:
        history = [name for name in ("since", "until", "token_address", "cursor") if name in given]
        if history and "min_confidence" in given:
            raise own("invalid_arguments", f"min_confidence cannot be combined with {history[0]}")
        signals, chain = (await self._trade()).signals, CHAINS[given["chain"]]
        if not history:
            limit = given.get("limit", FEW_ROWS)
            found = await signals.latest(chain=chain, limit=limit, min_confidence=given.get("min_confidence"))
            return page(map(wire, found[:limit]), None)
        pager = signals.history(
            chain=chain,
            token_address=given.get("token_address"),
            since=moment("since", given),
            until=moment("until", given),
            **walk_of(given),
        )
        return _page(await pager.page())

    async def _market_tokens(self, given: Answer) -> Answer:
        cursor = given.get("cursor", "0")
        if not re.fullmatch("[0-9]{1,5}", cursor):
            raise own("invalid_arguments", "cursor is not from this tool")
        wanted, listed = given.get("search", "").casefold(), await self._supported()
        rows = [
            wire(token)
            for token in listed
            if wanted in f"{token.symbol}\n{token.name}".casefold() or wanted == token.token_address.casefold()
        ]
        start, limit = int(cursor), given.get("limit", FEW_ROWS)
        following = str(start + limit) if start + limit < len(rows) else None
        return page(rows[start : start + limit], following, total=len(rows))

    async def _supported(self) -> list[Any]:
        listed = (await (await self._market()).supported_tokens(limit=_MOST_TOKENS)).data.tokens
        self._symbols = {token.token_address.casefold(): token.symbol.casefold() for token in listed}
        self._symbols_at = anyio.current_time()
        return listed

    async def _docs(self, given: Answer) -> Answer:
        return topic(given.get("topic"), self.scope)

    # Money

    async def _market_quote(self, given: Answer) -> Answer:
        call = call_of(given)
        quote = await getattr((await self._market()).quote, call.method)(**call.given)
        left = quote.spending.left_usd
        spend = self.scope.spend
        answer = {
            "what": call.description(),
            "price_usd": plain_dollars(quote.price),
            "budgets_leave_usd": None if left is None else plain_dollars(left),
            "session_leaves_usd": plain_dollars(usd(self.limit.left)),
            "for_sale": spend > 0,
            "needs_approval": quote.amount > self.scope.auto,
        }
        if not spend:
            answer["next_step"] = "this session cannot buy: tell the person (trade mcp --spend)"
        return answer

    async def _market_buy(self, given: Answer) -> Answer:
        call, purchase = call_of(given), PREFIX + given["purchase"]
        return await self._writes.run(purchase, lambda: self._purchase(call, purchase, given))

    async def _purchase(self, call: Call, purchase: str, given: Answer) -> Answer:
        market = await self._market()
        quote = await getattr(market.quote, call.method)(**call.given)
        price, wallet = plain_dollars(quote.price), self._wallet
        content = {
            "do": "buy",
            "what": call.endpoint,
            "body": json.loads(quote.body),
            "purchase": purchase,
            "price_usd": price,
            "where": self._run.target(market=True).text,
            "payer": None if wallet is None else await anyio.to_thread.run_sync(lambda: wallet.address),
        }
        action = await self._ask(self.approvals.find, content)
        is_paid = False
        if action is None or action.state != "approved":
            seen = await getattr(market.dry_run, call.method)(**call.given, max_price=price, purchase=purchase)
            is_paid = _is_paid(seen.existing)
            if not is_paid and (action is None or action.state == "pending"):
                if seen.refusal is not None:
                    raise seen.refusal
                self.limit.check(purchase, quote.amount)
                action = await self._allowed(call, content, action, quote.amount)
                if action is not None and action.state == "pending":
                    return self._required(action)
        buy = partial(getattr(market, call.method), **call.given, max_price=price, purchase=purchase)
        return await self._bought(buy, call.verb, given, action, purchase, 0 if is_paid else quote.amount)

    async def _allowed(self, call: Call, content: Answer, action: Action | None, amount: int) -> Action | None:
        """The approved action of a purchase; None when `--auto-spend` allows it."""
        tokens = [token.casefold() for token in call.tokens]
        if tokens and (self._symbols_at is None or anyio.current_time() > self._symbols_at + _LIST_FOR):
            await self._supported()
        effect = {name: content[name] for name in ("do", "what", "where", "payer")}
        effect["tokens"] = sorted({self._symbols.get(token, token) for token in tokens})
        if await self._ask(self.approvals.refused, effect):
            raise own("approval_refused")
        if amount <= self.scope.auto:
            return None
        return action or await self._ask(self.approvals.prepare, content, effect)

    async def _bought(
        self,
        buy: Callable[[], Awaitable[MarketResult[Any]]],
        verb: str,
        given: Answer,
        action: Action | None,
        purchase: str,
        amount: int,
    ) -> Answer:
        """Buys. When canceled, the purchase stays counted and begun: the same call continues it."""
        new = amount > 0 and self.limit.take(purchase, amount)
        if action is not None and not await self._ask(self.approvals.begin, action):
            if new:
                self.limit.release(purchase)
            raise own("in_progress")
        try:
            result = await buy()
        except Exception as error:
            if not _nothing_happened(error):
                await self._ended(action, "unknown", getattr(error, "payment", None))
            else:
                if new:
                    self.limit.release(purchase)
                if action is not None and action.state == "approved":
                    await self._ask(self.approvals.reopen, action)
            if getattr(error, "code", None) == "signer_failed" and self._wallet is not None and self._wallet.failure:
                raise self._wallet.failure from None
            raise
        if new and result.again:
            self.limit.release(purchase)
        await self._ended(action, "done", result.payment)
        return self._delivered(verb, result, given.get("offset", 0))

    async def _ended(self, action: Action | None, state: str, payment: Payment | None) -> None:
        if action is not None:
            outcome = {"payment": None if payment is None else payment.id}
            await self._ask(self.approvals.end, action, state, outcome)

    def _delivered(self, verb: str, result: MarketResult[Any], start: int) -> Answer:
        from tradesdk_cli.pay.buy import PER_SIGNAL, rows_of, signal_rows

        rows = rows_of(verb, result.data)
        if verb in PER_SIGNAL:
            rows = signal_rows(rows)
        payment = result.payment
        answer: Answer = {
            "status": "done",
            "items": rows[start : start + MOST_ROWS],
            "total": len(rows),
            "next_offset": start + MOST_ROWS if start + MOST_ROWS < len(rows) else None,
            "paid_now_usd": "0.00" if result.again or payment is None else plain_dollars(payment.amount_usd),
            "again": result.again,
            "charged": result.charged,
            "payment": None if payment is None else payment.id,
            "answered_at": None if result.answered_at is None else result.answered_at.isoformat(),
            "session_leaves_usd": plain_dollars(usd(self.limit.left)),
        }
        if answer["next_offset"] is not None:
            answer["more"] = "repeat the call with offset=next_offset: it is not paid again"
        return answer

    async def _payments(self, given: Answer) -> Answer:
        action = given.get("action", "get" if "id" in given else "list")
        payments = (await self._market()).payments
        if action == "budget":
            budget = spending_fields(await payments.spending())
            session = {
                "limit_usd": plain_dollars(usd(self.limit.limit)),
                "spent_usd": plain_dollars(usd(self.limit.spent)),
                "left_usd": plain_dollars(usd(self.limit.left)),
                "without_approval_up_to_usd": plain_dollars(usd(self.scope.auto)),
            }
            return {"item": {"budgets": budget, "session": session}}
        if action in ("get", "resume") and "id" not in given:
            raise own("invalid_arguments", f"action={action} needs an id")
        if action == "get":
            return {"item": brief(await payments.get(given["id"]), self._now())}
        if action == "resume":
            payment = await payments.get(given["id"])
            return await self._writes.run(payment.purchase or payment.id, lambda: self._resumed(payment.id, given))
        stages = (PaymentStage(given["stage"]),) if "stage" in given else ()
        limit = given.get("limit", FEW_ROWS)
        found = await payments.list(stages=stages, limit=limit + 1, before=opened(given.get("cursor")))
        following = found[limit - 1].id if len(found) > limit else None
        return page((brief(one, self._now()) for one in found[:limit]), following)

    async def _resumed(self, payment_id: str, given: Answer) -> Answer:
        payments = (await self._market()).payments
        payment = await payments.get(payment_id)
        purchase, is_paid = payment.purchase or "", _is_paid(payment)
        action = await self._ask(self.approvals.begun, purchase)
        allowed = is_paid or action is not None or payment.amount <= self.scope.auto
        if not purchase.startswith(PREFIX) or not allowed:
            raise own("not_yours", person=f"{self._run.settings.program} pay resume {payment.id}")
        resume = partial(payments.resume, payment.id)
        return await self._bought(resume, verb_of(payment), given, action, purchase, 0 if is_paid else payment.amount)

    # Approval

    def _required(self, action: Action) -> Answer:
        command = f"{self._run.settings.program} approve {action.code}"
        return {
            "status": "approval_required",
            "code": action.code,
            "approve_with": command,
            "what": {"untrusted": action.summary},
            "price_usd": "0.00" if action.price is None else plain_dollars(action.price),
            "expires_in_s": max(0, round(action.expires - self._now())),
            "next_step": f"nothing was done: ask the person to run `{command}`, then repeat this call",
        }

    # Agents

    async def _agent_change(self, given: Answer) -> Answer:
        return await self._writes.run(given.get("id", "create"), lambda: self._change(given["operation"], given))

    async def _change(self, operation: str, given: Answer) -> Answer:
        body = body_of(given)
        before = await self._before(operation, given, body)
        content = {
            "do": operation,
            "id": given.get("id"),
            "body": body,
            "before": before,
            "where": self._run.target().text,
            "account": await anyio.to_thread.run_sync(self._account_mark),
        }
        action = await self._ask(self.approvals.find, content)
        changes = {name: value for name, value in flatten(body).items() if before.get(name) != value}
        if action is None or action.state == "pending":
            if operation == "update" and not changes:
                raise own("nothing_to_change")
            effect = {name: content[name] for name in ("do", "id", "where", "account")}
            effect |= {
                f"set {name}": value for name, value in changes.items() if operation != "create" or name != "name"
            }
            action = await self._ask(self.approvals.prepare, content, effect)
        if action.state == "pending":
            diff = {name: {"before": inside(before.get(name)), "after": inside(changes[name])} for name in changes}
            return {
                **self._required(action),
                "changes": {"before": marked(before), "after": None} if operation == "delete" else diff,
            }
        return await self._carry_out(operation, given.get("id", ""), body, action)

    def _account_mark(self) -> str:
        """A hash that identifies the account in an approval, without revealing the key."""
        base_url = self._run.settings.base_url or ""
        key = self._run.api_key(base_url)
        return hashlib.sha256(f"{base_url}\n{'' if key is None else key[0]}".encode()).hexdigest()[:16]

    async def _before(self, operation: str, given: Answer, body: Answer) -> Answer:
        """The current agent, by dotted names."""
        client = await self._trade()
        if operation == "create":
            missing = [name for name in ("name", "wallet_id", "chain") if name not in given]
            if missing or "id" in given:
                raise own("invalid_arguments", f"create needs {missing[0]}" if missing else "create takes no id")
            if body["wallet_id"] not in [one.id async for one in client.wallets.list(chain_id=body["chain_id"])]:
                raise own("not_found", "no connected wallet on that chain has this id")
            return {}
        if "id" not in given:
            raise own("invalid_arguments", f"{operation} needs an id")
        if operation == "delete" and body:
            raise own("invalid_arguments", "delete takes only an id")
        if operation == "update" and (not body or "chain_id" in body):
            raise own("invalid_arguments", "update needs something to change, and takes no chain")
        agent = wire(await client.agents.get(given["id"]))
        if operation == "delete" and agent["status"] == "active":
            raise own("still_active")
        return flatten({name: agent[name] for name in agent if name not in _MOVING})

    async def _carry_out(self, operation: str, agent_id: str, body: Answer, action: Action) -> Answer:
        if action.state == "done":
            raise own("approval_used", about={"outcome": action.outcome})
        if action.state in ("started", "unknown"):
            raise own("approval_unfinished", about={"outcome": action.outcome})
        agents, agent, found = (await self._trade(_CHANGE_WITHIN)).agents, None, agent_id
        with anyio.CancelScope(shield=True):  # it has a deadline of its own
            if not await self._ask(self.approvals.begin, action):
                raise own("approval_used")
            try:
                if operation == "create":
                    agent = await agents.create(**body)
                elif operation == "update":
                    agent = await agents.update(agent_id, **body)
                else:
                    await agents.delete(agent_id)
            except Exception as error:
                if _nothing_happened(error):
                    await self._ask(self.approvals.reopen, action)
                else:
                    await self._ask(self.approvals.end, action, "unknown", {})
                raise
            if agent is not None:
                found = agent.id
            await self._ask(self.approvals.end, action, "done", {"agent": found})
        answer: Answer = {"status": "done", "id": found}
        return answer if agent is None else {**answer, "item": wire(agent)}


# Results


def _page(found: Any) -> Answer:
    return page(map(wire, found.data), found.next_cursor)


def _stat(agent: Mapping[str, Any], name: str) -> float:
    value = (agent.get("stats") or {}).get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _is_paid(payment: Payment | None) -> bool:
    """Whether the ledger has its answer, so that it costs nothing."""
    return payment is not None and payment.stage.value == "answered"


def _nothing_happened(error: Exception) -> bool:
    """Whether the failed call certainly paid and changed nothing."""
    payment: Payment | None = getattr(error, "payment", None)
    if payment is not None:
        return payment.charged is False
    if isinstance(error, APIError):
        return error.outcome == "none"
    return isinstance(error, (TradeError, CliError)) and not isinstance(error, PaymentOutcomeUnknownError)
