"""The tools themselves: from checked arguments to an answer, by the public clients of the SDK."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tradesdk_cli.mcp.answers import NOTE, fault_of, marked, opened, own, page, selected
from tradesdk_cli.mcp.approvals import Action, Approvals, approvals_file
from tradesdk_cli.mcp.arguments import body_of, call_of, checked, listed, moment, walk_of
from tradesdk_cli.mcp.catalog import FEW_ROWS, MOST_ROWS, Scope, Tool, tools
from tradesdk_cli.mcp.spending import SessionLimit
from tradesdk_cli.output.formats import flatten
from tradesdk_cli.session import wire
from tradesdk_cli.text import dollars, plain_dollars, to_json, usd, visible

if TYPE_CHECKING:
    from tradesdk import MarketClient, MarketResult, Payment, TradeClient
    from tradesdk_cli.pay.calls import Call
    from tradesdk_cli.session import Session
    from tradesdk_cli.wallet import Wallet

PREFIX = "mcp/"
"""Purchases of AI clients have names of their own: they cannot take those of a person's jobs."""
READ_WITHIN = 30.0
"""Seconds that a read may take with its retries: a client waits for its answer."""
_LISTS = ("agents", "trades", "positions")
_MOST_AGENTS = 100
_MOST_TOKENS = 500
_LARGEST = 64_000
"""Characters of an answer."""
_RISK = ("position_size_pct", "stop_loss_pct", "trailing_stop_pct", "take_profit_pct")
_STATS = ("total_pnl_usd", "win_rate_pct", "total_trades")

Answer = dict[str, Any]


class Toolbox:
    """The tools of one server process, which is one session. Its methods block, and may be called by any thread."""

    def __init__(self, run: Session, scope: Scope, *, now: Callable[[], float] = time.time) -> None:
        self.scope = scope
        self.limit = SessionLimit(scope.spend)
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools(scope)}
        self._run = run
        self._now = now
        self._lock = threading.RLock()
        self._one_write = threading.Lock()

    @cached_property
    def approvals(self) -> Approvals:
        """The actions that wait."""
        with self._lock:
            return Approvals(approvals_file(self._run.ledger_file))

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer of a tool.

        Raises:
            Fault: it says why there is none, and what can be done.
        """
        tool = self.tools.get(name)
        if tool is None:
            raise own("unknown_tool", f"this session has no such tool; it has {', '.join(self.tools)}")
        given = checked(tool, arguments)
        try:
            answer = self._list(name, given) if name in _LISTS else getattr(self, f"_{name}")(given)
        except Exception as error:
            raise fault_of(error, self._run.settings.program) from None
        return fitting(answer)

    def finish(self) -> None:
        """Waits until what is being bought or changed has ended; nothing begins after it."""
        self._one_write.acquire()

    # Clients: made at the first call, so that the server starts at once and says later what is missing

    @property
    def _trade(self) -> TradeClient:
        with self._lock:
            return self._run.client.with_options(deadline=READ_WITHIN)

    @property
    def _writer(self) -> TradeClient:
        with self._lock:
            return self._run.client

    @cached_property
    def _wallet(self) -> Wallet | None:

        return self._run.wallet()

    @cached_property
    def _market_client(self) -> MarketClient:
        from tradesdk_cli.pay.checkout import market_client

        return market_client(self._run, self._wallet if self.scope.spend else None)

    @property
    def _market(self) -> MarketClient:
        with self._lock:
            return self._market_client

    # Reading

    def _account(self, given: Answer) -> Answer:
        client = self._trade
        wallets = client.wallets.list(limit=MOST_ROWS).page()
        rows = [marked(wire(wallet)) for wallet in wallets.data]
        if given.get("balances"):
            for row, wallet in zip(rows, wallets.data, strict=True):
                row["balance"] = marked(wire(client.wallets.balance(wallet.id)))
        answer = {
            "account": marked(wire(client.account.get())),
            "usage": marked(wire(client.account.usage())),
            "wallets": rows,
            "note": NOTE,
        }
        if wallets.next_cursor is not None:
            answer["more"] = "there are more wallets than are listed here"
        return answer

    def _list(self, name: str, given: Answer) -> Answer:
        """A tool that has the SDK's name, and its filters as arguments."""
        resource = getattr(self._trade, name)
        if "id" in given:
            return _item(wire(resource.get(given["id"])), given)
        filters = {key: given[key] for key in given if key not in ("limit", "cursor", "fields")}
        return _page(resource.list(**walk_of(given), **filters).page(), given)

    def _results(self, given: Answer) -> Answer:
        from tradesdk import NotFoundError

        client = self._trade
        summaries = list(client.agents.list(max_items=_MOST_AGENTS + 1))
        agents = []
        for summary in summaries[:_MOST_AGENTS]:
            try:
                agents.append(wire(client.agents.get(summary.id)))
            except NotFoundError:  # deleted meanwhile
                continue
        name = {"pnl": _STATS[0], "win_rate": _STATS[1], "trades": _STATS[2]}[given.get("sort", "pnl")]
        if given.get("losing"):
            agents = [agent for agent in agents if _stat(agent, _STATS[0]) < 0]
        agents.sort(key=lambda agent: _stat(agent, name), reverse=not given.get("losing"))
        shown = agents[: given.get("limit", FEW_ROWS)]
        more: Answer = {"total": len(agents)}
        if len(summaries) > _MOST_AGENTS:
            more["incomplete"] = f"only {_MOST_AGENTS} agents were read"
        return page(shown, None, given.get("fields", ()), **more)

    def _signals(self, given: Answer) -> Answer:
        history = [name for name in ("since", "until", "token_address", "cursor") if name in given]
        if history and "min_confidence" in given:
            raise own("invalid_arguments", f"min_confidence cannot be combined with {history[0]}")
        if not history:
            limit = given.get("limit", FEW_ROWS)
            asked = {"limit": limit, "min_confidence": given.get("min_confidence")}
            found = self._trade.signals.latest(chain=given["chain"], **asked)
            return page(map(wire, found[:limit]), None, given.get("fields", ()))
        pager = self._trade.signals.history(
            chain=given["chain"],
            token_address=given.get("token_address"),
            start=moment("since", given),
            end=moment("until", given),
            **walk_of(given),
        )
        return _page(pager.page(), given)

    def _market_tokens(self, given: Answer) -> Answer:
        cursor = given.get("cursor", "0")
        if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 6):
            raise own("invalid_arguments", "cursor is none that this tool gave")
        wanted = given.get("search", "").casefold()
        listed = self._market.supported_tokens(limit=_MOST_TOKENS).data.tokens
        rows = [
            wire(token)
            for token in listed
            if wanted in token.symbol.casefold()
            or wanted in token.name.casefold()
            or wanted == token.token_address.casefold()
        ]
        start, limit = int(cursor), given.get("limit", FEW_ROWS)
        following = str(start + limit) if start + limit < len(rows) else None
        return page(rows[start : start + limit], following, given.get("fields", ()), total=len(rows))

    def _docs(self, given: Answer) -> Answer:
        from tradesdk_cli.mcp.topics import topic

        return topic(given.get("topic"), self.scope)

    # Money

    def _market_quote(self, given: Answer) -> Answer:
        call = call_of(given)
        quote = self._quote(call)
        left = quote.spending.left_usd
        spend = self.scope.spend
        answer = {
            "what": call.told(),
            "price_usd": plain_dollars(quote.price),
            "budgets_leave_usd": None if left is None else plain_dollars(left),
            "session_leaves_usd": plain_dollars(usd(self.limit.left)),
            "for_sale": spend > 0,
            "needs_approval": quote.amount > self.scope.auto,
        }
        if not spend:
            answer["next_step"] = "this session cannot buy: tell the person (trade mcp --spend)"
        return answer

    def _quote(self, call: Call) -> Any:
        return getattr(self._market.quote, call.method)(**call.given)

    def _market_buy(self, given: Answer) -> Answer:
        call = call_of(given)
        purchase = PREFIX + given["purchase"]
        with self._one_write:
            quote = self._quote(call)
            wallet = self._wallet
            content = {
                "do": "buy",
                "what": call.endpoint,
                "body": call.body(),
                "purchase": purchase,
                "price_usd": plain_dollars(quote.price),
                "where": self._run.target(market=True).text,
                "payer": None if wallet is None else wallet.address,
            }
            summary = visible(f"buy {call.told()}{listed(call.tokens)} as {purchase}")
            action = self._settled(given, content)
            begun = action is not None and action.state in ("started", "done", "unknown")
            if not begun:
                self.limit.check(purchase, quote.amount)
                left = quote.spending.left_usd
                if left is not None and quote.price > left:
                    told = f"it costs {dollars(quote.price)}, and the budgets leave {dollars(left)}"
                    raise own("over_budget", f"{told}; nothing was signed")
            if action is None:
                if quote.amount <= self.scope.auto:
                    action = self.approvals.allow(content, summary, quote.amount, self._now())
                else:
                    action = self.approvals.prepare("purchase", content, summary, quote.amount, self._now())
            if action.state == "pending":
                return self._required(action)
            if action.state == "refused":
                raise own("approval_refused")
            return self._buy(call, given, action, purchase, quote.price)

    def _buy(self, call: Call, given: Answer, action: Action, purchase: str, price: Decimal) -> Answer:
        new = self.limit.take(purchase, action.price)
        if not self.approvals.begin(action, self._now()):
            if new:
                self.limit.release(purchase)
            raise own("approval_expired") if action.expired(self._now()) else own("in_progress")
        first = action.state == "approved"
        try:
            result: MarketResult[Any] = getattr(self._market, call.method)(
                **call.given, max_price=plain_dollars(price), purchase=purchase
            )
        except Exception as error:
            self._bought_not(error, action, purchase, new=new, first=first)
            raise
        if new and result.again:
            self.limit.release(purchase)
        payment = result.payment
        outcome = {"payment": None if payment is None else payment.id}
        self.approvals.end(action, "done", outcome, self._now())
        return self._delivered(call.verb, result, given)

    def _bought_not(self, error: Exception, action: Action, purchase: str, *, new: bool, first: bool) -> None:
        """Only when surely nothing was sent is the session's money given back, and the approval with it."""
        payment: Payment | None = getattr(error, "payment", None)
        surely = _nothing_was_sent(error, payment)
        if surely and new:
            self.limit.release(purchase)
        if surely and first:
            self.approvals.reopen(action, self._now())
        elif not surely:
            outcome = {"payment": None if payment is None else payment.id}
            self.approvals.end(action, "unknown", outcome, self._now())

    def _delivered(self, verb: str, result: MarketResult[Any], given: Answer) -> Answer:
        from tradesdk_cli.pay.buy import PER_SIGNAL, a_row_each, records

        rows = records(verb, result.data)
        if verb in PER_SIGNAL:
            rows = a_row_each(rows)
        start = given.get("offset", 0)
        shown = rows[start : start + MOST_ROWS]
        payment = result.payment
        answer: Answer = {
            "status": "done",
            "items": [selected(marked(row), given.get("fields", ())) for row in shown],
            "total": len(rows),
            "next_offset": start + MOST_ROWS if start + MOST_ROWS < len(rows) else None,
            "paid_now_usd": "0.00" if result.again or payment is None else plain_dollars(payment.amount_usd),
            "again": result.again,
            "charged": result.charged,
            "payment": None if payment is None else payment.id,
            "answered_at": None if result.answered_at is None else result.answered_at.isoformat(),
            "session_leaves_usd": plain_dollars(usd(self.limit.left)),
            "note": NOTE,
        }
        if answer["next_offset"] is not None:
            answer["more"] = "repeat the call with offset=next_offset: it is not paid again"
        return answer

    def _payments(self, given: Answer) -> Answer:
        from tradesdk_cli.pay.records import brief, spending_record

        action = given.get("action", "get" if "id" in given else "list")
        if action == "budget":
            budget = spending_record(self._market.payments.spending())
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
            return _item(brief(self._market.payments.get(given["id"]), self._now()), given)
        if action == "resume":
            return self._resume(given)
        from tradesdk import PaymentStage

        stages = (PaymentStage(given["stage"]),) if "stage" in given else ()
        limit = given.get("limit", FEW_ROWS)
        found = self._market.payments.list(stages=stages, limit=limit + 1, before=opened(given.get("cursor")))
        following = found[limit - 1].id if len(found) > limit else None
        return page((brief(one, self._now()) for one in found[:limit]), following, given.get("fields", ()))

    def _resume(self, given: Answer) -> Answer:
        from tradesdk_cli.pay.recover import verb_of

        with self._one_write:
            payment = self._market.payments.get(given["id"])
            action = None if payment.purchase is None else self._action_of(payment.purchase)
            if action is None or payment.purchase is None:
                raise own("not_yours", person=f"{self._run.settings.program} pay resume {payment.id}")
            new = self.limit.take(payment.purchase, payment.amount)
            try:
                result = self._market.payments.resume(payment.id)
            except Exception as error:
                if new and getattr(error, "charged", "unknown") is False:
                    self.limit.release(payment.purchase)
                raise
            if new and result.again:
                self.limit.release(payment.purchase)
            self.approvals.end(action, "done", {"payment": payment.id}, self._now())
            return self._delivered(verb_of(payment), result, given)

    def _action_of(self, purchase: str) -> Action | None:
        """The purchase of this name that `market_buy` began."""
        if not purchase.startswith(PREFIX):
            return None
        begun = (one for one in self.approvals.all(self._now()) if one.state in ("started", "done", "unknown"))
        return next((one for one in begun if one.content.get("purchase") == purchase), None)

    # Approval

    def _settled(self, given: Answer, content: Mapping[str, Any]) -> Action | None:
        """The action in force with this content; the one of `approval`, when the client names it."""
        code = given.get("approval")
        if code is None:
            return self.approvals.find(content, self._now())
        action = self.approvals.get(code)
        if action is None or action.content.get("where") != content["where"]:
            raise own("approval_unknown")
        same = {**content, "before": None} == {**action.content, "before": None}
        if not same or (action.content != dict(content) and action.state in ("pending", "approved")):
            raise own("approval_mismatch")
        if action.expired(self._now()):
            raise own("approval_expired")
        return action

    def _required(self, action: Action) -> Answer:
        program = self._run.settings.program
        command = f"{program} approve {action.code}"
        return {
            "status": "approval_required",
            "code": action.code,
            "approve_with": command,
            "what": {"untrusted": action.summary},
            "price_usd": plain_dollars(usd(action.price)),
            "expires_in_s": max(0, round(action.expires - self._now())),
            "next_step": f"nothing was done: ask the person to run `{command}`, then repeat this call",
        }

    # Agents

    def _agent_change(self, given: Answer) -> Answer:
        with self._one_write:
            operation = given["operation"]
            body = body_of(given)
            before, name = self._before(operation, given, body)
            content = {
                "do": operation,
                "id": given.get("id"),
                "body": body,
                "before": before,
                "where": self._run.target().text,
                "account": self._account_mark(),
            }
            action = self._settled(given, content)
            if action is None:
                if operation == "update" and all(before.get(key) == value for key, value in flatten(body).items()):
                    raise own("nothing_to_change")
                summary = f"{operation} the agent {to_json(name)}" + (f" ({given['id']})" if "id" in given else "")
                action = self.approvals.prepare("change", content, summary, 0, self._now())
            if action.state == "pending":
                return {**self._required(action), "changes": _changes(before, body, operation)}
            if action.state == "refused":
                raise own("approval_refused")
            return self._carry_out(operation, given, body, action)

    def _account_mark(self) -> str:
        """Tells accounts apart in what is approved; the key cannot be found from it."""
        base_url = self._run.settings.base_url or ""
        key = self._run.api_key(base_url)
        return hashlib.sha256(f"{base_url}\n{'' if key is None else key[0]}".encode()).hexdigest()[:16]

    def _before(self, operation: str, given: Answer, body: Answer) -> tuple[Answer, str]:
        """What is now of that which would change, and the agent's name."""
        if operation == "create":
            missing = [name for name in ("name", "wallet_id", "chain_id") if name not in body]
            if missing or "id" in given:
                raise own("invalid_arguments", f"create needs {missing[0]}" if missing else "create takes no id")
            wallets = (wallet.id for wallet in self._trade.wallets.list(chain_id=body["chain_id"]))
            if body["wallet_id"] not in wallets:
                raise own("not_found", "no connected wallet on that chain has this id")
            return {}, body["name"]
        if "id" not in given:
            raise own("invalid_arguments", f"{operation} needs an id")
        if operation == "delete" and body:
            raise own("invalid_arguments", "delete takes only an id")
        if operation == "update" and (not body or "chain_id" in body):
            raise own("invalid_arguments", "update needs something to change, and takes no chain_id")
        agent = wire(self._trade.agents.get(given["id"]))
        if operation == "delete":
            if agent["status"] == "active":
                raise own("still_active")
            return {name: agent.get(name) for name in ("name", "status", "chain_id")}, agent["name"]
        now = flatten(agent)
        return {key: now.get(key) for key in flatten(body)}, agent["name"]

    def _carry_out(self, operation: str, given: Answer, body: Answer, action: Action) -> Answer:
        if action.state == "done":
            raise own("approval_used", about={"outcome": action.outcome})
        if action.state in ("started", "unknown"):
            raise own("approval_unfinished", about={"outcome": action.outcome})
        if not self.approvals.begin(action, self._now()):
            raise own("approval_used")
        try:
            agent = self._send(operation, given, body)
        except Exception as error:
            if _surely_not_changed(error):
                self.approvals.reopen(action, self._now())
            else:
                self.approvals.end(action, "unknown", {}, self._now())
            raise
        found = given.get("id") if agent is None else agent.id
        self.approvals.end(action, "done", {"agent": found}, self._now())
        answer: Answer = {"status": "done", "id": found}
        return answer if agent is None else {**answer, "item": marked(wire(agent)), "note": NOTE}

    def _send(self, operation: str, given: Answer, body: Answer) -> Any:
        agents = self._writer.agents
        if operation == "create":
            return agents.create(**body)
        if operation == "update":
            return agents.update(given["id"], **body)
        agents.delete(given["id"])
        return None


# Answers


def _item(item: Mapping[str, Any], given: Mapping[str, Any]) -> Answer:
    found = selected(marked(item), given.get("fields", ()))
    return {"item": found, "note": NOTE} if "untrusted" in found else {"item": found}


def _page(found: Any, given: Mapping[str, Any]) -> Answer:
    return page(map(wire, found.data), found.next_cursor, given.get("fields", ()))


def _stat(agent: Mapping[str, Any], name: str) -> float:
    value = (agent.get("stats") or {}).get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _changes(before: Mapping[str, Any], body: Mapping[str, Any], operation: str) -> Answer:
    """Before and after, by dotted names."""
    if operation == "delete":
        return {"before": marked(before), "after": None}
    after = flatten(body)
    return {key: {"before": _inside(before.get(key)), "after": _inside(value)} for key, value in after.items()}


def _inside(value: Any) -> Any:
    return {"untrusted": visible(value, 200)} if isinstance(value, str) else value


def fitting(answer: Answer) -> Answer:
    """The answer, unless it is larger than a client can use."""
    if len(to_json(answer)) > _LARGEST:
        raise own("answer_too_large")
    return answer


def _nothing_was_sent(error: Exception, payment: Payment | None) -> bool:
    """Whether surely no payment reached the service."""
    from tradesdk import PaymentOutcomeUnknownError, TradeError
    from tradesdk_cli.errors import CliError

    if isinstance(error, PaymentOutcomeUnknownError):
        return False
    if payment is not None:
        return payment.charged is False
    return isinstance(error, (TradeError, CliError))


def _surely_not_changed(error: Exception) -> bool:
    """Whether a write that failed surely changed nothing."""
    from tradesdk import APIError, TradeError
    from tradesdk_cli.errors import CliError

    if isinstance(error, APIError):
        return error.outcome == "none"
    return isinstance(error, (TradeError, CliError))
