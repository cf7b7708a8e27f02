"""Every error says what to do next, in words that Python can use; and what is written wrongly is said by its name."""

from __future__ import annotations

import ast
import inspect
import re
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

import tradesdk
import tradesdk.fleet
from tradesdk import (
    AgentStats,
    AmbiguousOutcomeError,
    APIStatusError,
    AsyncChainWitness,
    AsyncMarketClient,
    AsyncTradeClient,
    Batch,
    Budget,
    ChainWitness,
    ConfigError,
    ErrorCode,
    InternalServerError,
    Ledger,
    LocalSigner,
    MarketClient,
    MarketResult,
    PaymentRefusedError,
    Quote,
    RateLimitError,
    Receipt,
    RetryPolicy,
    Risk,
    Signal,
    Timeout,
    TokenQuery,
    TradeClient,
    TradeError,
    arrow_table,
    create_keystore,
    keystore_address,
    wallet_message,
)
from tradesdk._values.hints import HINTS
from tradesdk.payments import BudgetDetails, PriceDetails

from .._answers import BASE, CODES, KEY, Service
from .._clock import START, VirtualClock
from .._payments import payment
from .._ports import free_port
from .._rows import each_of
from ._client import client_of

PAGES = Path(__file__).parents[2] / "docs"
PRIVATE = "0x" + "01" * 32
SIGNER: Any = LocalSigner.from_key(PRIVATE)
VERBS = (
    "add|ask|call|change|check|choose|contact|correct|do not|end|give|get|install|list|look|make|open|pass|put|raise"
    "|remove|report|run|see|set|sign|start|try|update|use|wait|write"
)


@each_of("code", list(get_args(ErrorCode)))
def test_every_code_has_a_hint_that_names_what_to_do(code: ErrorCode) -> None:
    hint = TradeError("no", code=code).hint
    assert re.search(rf"(^|[,:;] |to )(or )?({VERBS})\b", hint), hint
    assert hint.isprintable()
    assert not re.search(r"(?<!\w)--\w|\btrade [a-z]", hint), "an option or a command, in words for Python"
    assert not re.search(r"new_purchase|replaces|lost=", hint)


def test_no_hint_is_left_over() -> None:
    assert set(HINTS) == set(get_args(ErrorCode))


def test_every_code_is_raised_somewhere() -> None:
    root = Path(tradesdk.__file__).parent
    tables = {root / "errors.py", root / "_values" / "hints.py"}
    source = "".join(file.read_text("utf-8") for file in root.rglob("*.py") if file not in tables)
    source += "".join(re.findall(r"code[^=\n]*= \"\w+\"", (root / "errors.py").read_text("utf-8")))
    assert [code for code in get_args(ErrorCode) if f'"{code}"' not in source] == []


@pytest.mark.long  # all sources are parsed
def test_what_is_named_in_a_hint_is_there() -> None:
    """Methods of clients, arguments, attributes of errors: a hint that is followed leads somewhere."""
    clients = (
        TradeClient(api_key=KEY, base_url=BASE),
        MarketClient(base_url=BASE, ledger=Ledger.memory(), signer=LocalSigner.from_key(PRIVATE)),
    )
    parts = [getattr(client, name) for client in clients for name in dir(client) if not name.startswith("_")]
    arguments = set[str]()
    public = [getattr(module, name) for module in (tradesdk, tradesdk.fleet) for name in dir(module)]
    for owner in (*map(type, parts), *public):
        for member in (owner, *tuple(vars(owner).values())) if isinstance(owner, type) else (owner,):
            if callable(member := getattr(member, "__func__", member)):
                with suppress(ValueError):  # it is written in C
                    arguments |= set(inspect.signature(member).parameters)
    variables = set(re.findall(r"TRADE_[A-Z_]+", "".join(page.read_text("utf-8") for page in PAGES.glob("*.md"))))
    for where, text in _texts():
        for path in re.findall(r"(?<![\w.])client((?:\.\w+)+)", text):
            assert any(_reaches(client, path) for client in clients), (where, path)
        names = set(re.findall(r"(?<![\w?&.-])([a-z]\w*)=(?!=)", text))
        assert names - {"tzinfo", "amount_usd"} <= arguments, (where, text)
        assert set(re.findall(r"\bTRADE_[A-Z_]*[A-Z]\b", text)) <= variables, (where, text)
        words_for_trade = (
            r"\(trade |\btrade (pay|market|agents|signals|mock) [a-z]"  # `config`: only trade keeps profiles
        )
        assert not re.search(words_for_trade, text), (where, text)
    for client in clients:
        client.close()


@pytest.mark.long  # all sources are parsed
def test_what_is_refused_says_what_to_write() -> None:
    """The usual hint of an argument or a setting says no more than the message."""
    root = Path(tradesdk.__file__).parent
    for file in root.rglob("*.py"):
        if "_sync" not in file.parts:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    given = {one.arg for one in node.keywords}
                    where = f"{file.relative_to(root)}:{node.lineno}"
                    assert node.func.id != "InvalidArgumentError" or "hint" in given, where
                    assert node.func.id != "ConfigError" or given & {"hint", "code"}, where


@each_of(
    ("use", "status", "named"),
    [
        (lambda c: c.wallets.connect(address="0x1", chain_id=56, label="l", signature="0x"), 409, "client.wallets."),
        (lambda c: c.agents.create(name="n", wallet_id="w", chain_id=56), 404, "wallet_id; client.wallets.list()"),
        (lambda c: c.agents.update("a", wallet_id="w"), 404, "client.agents.list() and client.wallets.list()"),
        (lambda c: c.agents.delete("a"), 409, "stopped in the dashboard"),
        (lambda c: c.agents.get("a"), 404, "list() of the same resource"),
        (lambda c: c.wallets.balance("w"), 404, "list() of the same resource"),
        (lambda c: c.request("GET", "/v1/nothing"), 404, "check the path"),
    ],
)
def test_a_refusal_is_of_the_request(use: Callable[[TradeClient], object], status: int, named: str) -> None:
    """Not of the case that its code usually means."""
    answer = httpx.Response(status, json={"error": {"code": CODES[status], "message": "no"}})
    with pytest.raises(APIStatusError) as caught:
        use(client_of(Service(answer), max_retries=0))
    assert named in caught.value.hint


def _texts() -> Iterator[tuple[str, str]]:
    """Every text of the SDK that is no docstring: where it stands, and its words."""
    for file in Path(tradesdk.__file__).parent.rglob("*.py"):
        if "_sync" in file.parts:
            continue
        tree = ast.parse(file.read_text("utf-8"))
        statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in statements:
                yield f"{file.name}:{node.lineno}", node.value


def _reaches(found: Any, path: str) -> bool:
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
    return found is not None


def test_a_hint_of_its_own_wins_and_is_in_the_traceback_once() -> None:
    own, usual = ConfigError("no", hint="do\nthis"), ConfigError("no")
    assert (own.hint, usual.hint) == ("do\nthis", HINTS["invalid_setting"])
    assert "".join(traceback.format_exception(own)).count("hint: do\\nthis") == 1
    assert "hint" not in "".join(traceback.format_exception(usual))
    assert str(own) == "no"


@each_of(("status", "named"), [
    (400, "correct the value"),
    (401, "TRADE_API_KEY or api_key="),
    (402, "error.status"),
    (403, "full-access"),
    (404, "check the id"),
    (409, "stopped in the dashboard"),
    (422, "correct the value"),
    (429, "error.retry_at"),
    (500, "try again"),
    (502, "try again"),
    (503, "try again"),
    (504, "try again later"),
])  # fmt: skip
def test_what_the_service_refuses(status: int, named: str) -> None:
    body = {"error": {"code": CODES.get(status, "odd"), "message": "no"}}
    client = client_of(Service(httpx.Response(status, json=body)), max_retries=0)
    with pytest.raises(APIStatusError) as caught:
        client.agents.list().first()
    assert named in caught.value.hint
    assert caught.value.response is not None
    assert caught.value.response.status == status


def test_a_request_that_may_have_been_carried_out_is_not_repeated_blindly() -> None:
    client = client_of(Service(httpx.Response(500, json={"error": {"code": "internal_error", "message": "no"}})))
    with pytest.raises(InternalServerError) as caught:
        client.agents.create(name="n", wallet_id="w", chain_id=8453)
    assert caught.value.outcome == "unknown"
    assert caught.value.hint == "it may have been carried out; list or get it before you make the call again"
    doubt = AmbiguousOutcomeError("m", method="POST", url=BASE)
    assert "error.candidates" in doubt.hint


def unsent() -> None:
    used_up = {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{START + 60:.0f}"}
    client = client_of(Service(httpx.Response(200, headers=used_up)), deadline=1)
    client.request("GET", "/v1/account")
    client.account.get()


def bot(**given: Any) -> TradeClient:
    return TradeClient(**{"api_key": KEY, "base_url": BASE, **given})


def shop(**given: Any) -> MarketClient:
    return MarketClient(base_url=BASE, ledger=Ledger.memory(), **given)


def refused_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    bot(base_url="https://nobody.invalid").account.get()


def no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    arrow_table(Signal, [])


def no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_BUDGET_TOTAL", "much")
    Budget.from_environment()


def nothing_listens(_: pytest.MonkeyPatch) -> None:
    bot(base_url=f"http://127.0.0.1:{free_port()}", max_retries=0).account.get()


@pytest.mark.parametrize(
    ("use", "code", "named"),
    [
        (lambda _: TradeClient(base_url=BASE), "invalid_api_key", "TRADE_API_KEY or pass api_key="),
        (lambda _: TradeClient(api_key=KEY), "invalid_base_url", "TRADE_BASE_URL or pass base_url="),
        (lambda _: bot(base_url="service"), "invalid_base_url", "https://api.example.com"),
        (nothing_listens, "connection_refused", "start the service there, or correct the base URL"),
        (refused_host, "unknown_host", "correct the host in the base URL"),
        (no_arrow, "missing_package", "install the package"),
        (lambda _: unsent(), "rate_limited", "error.retry_at"),
        (lambda _: bot().agents.get(".."), "invalid_argument", "set agent_id to an id"),
        (
            lambda _: shop(signer=LocalSigner.from_key(PRIVATE)).token_prices([]),
            "invalid_argument",
            'write tokens=["ETH"',
        ),
        (lambda _: Budget(total=0.5), "invalid_argument", 'write total="0.5"'),  # type: ignore[arg-type]
        (no_number, "invalid_budget", "write dollars"),
        (lambda _: LocalSigner.from_key("0x12"), "invalid_private_key", "64 hexadecimal digits"),
        (lambda _: create_keystore("w.json", "", PRIVATE), "invalid_setting", "choose a password"),
    ],
    ids=lambda row: row if isinstance(row, str) else "",
)
def test_what_is_refused_here(
    use: Callable[[pytest.MonkeyPatch], object], code: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TRADE_API_KEY", "TRADE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(TradeError) as caught:
        use(monkeypatch)
    assert caught.value.code == code
    assert named in caught.value.hint


# Numbers in quotes


@each_of(
    ("use", "said", "hint"),
    [
        (lambda: bot(timeout="5"), "timeout must be more than 0 seconds, or a Timeout, not the str '5'", "timeout=5"),
        (lambda: Timeout(read="5"), "timeout: read must be more than 0 seconds, not the str '5'", "read=5"),  # type: ignore[arg-type]
        (lambda: bot(deadline="60"), "deadline must be more than 0 seconds, not the str '60'", "deadline=60"),
        (lambda: bot(max_retries="3"), "max_retries must be a whole number from 0 to 5, not the str '3'", "=3"),
        (lambda: RetryPolicy(cap="20"), "cap must be a finite number, 0 or more, not the str '20'", "cap=20"),  # type: ignore[arg-type]
        (lambda: bot().trades.list(limit="5"), "limit must be a whole number from 1 to 100, not the str '5'", "=5"),  # type: ignore[arg-type]
        (lambda: bot().signals.latest(chain=56, limit="5"), "limit must be a whole number", "limit=5"),  # type: ignore[arg-type]
        (lambda: bot().trades.list(max_items="3"), "max_items must be a whole number, 0 or more, not the str", "=3"),  # type: ignore[arg-type]
        (lambda: bot().signals.latest(chain="56"), "chain must be 8453 (Base) or 56 (BNB Chain), not the str", "=56"),  # type: ignore[arg-type]
        (lambda: bot().agents.update("a", max_positions="5"), "max_positions must be a whole number", "=5"),  # type: ignore[arg-type]
        (lambda: bot().agents.update("a", min_confidence="0.5"), "min_confidence must be a number from 0", "=0.5"),  # type: ignore[arg-type]
        (lambda: Risk(stop_loss_pct="5"), "stop_loss_pct must be a number, not the str '5'", "stop_loss_pct=5"),  # type: ignore[arg-type]
        (lambda: bot().agents.update("a", risk={"stop_loss_pct": "5"}), "stop_loss_pct must be a number", "=5"),  # type: ignore[arg-type]
        (lambda: bot().signals.stream(chain=56, settle="3"), "settle must be 0 or more seconds, not the str", "=3"),  # type: ignore[call-overload]
        (lambda: bot().signals.stream(chain=56, max_reconnects="3"), "max_reconnects must be a whole number", "=3"),  # type: ignore[call-overload]
        (lambda: shop().top_performers("ROI", limit="5"), "limit must be a whole number from 1 to", "limit=5"),  # type: ignore[arg-type]
        (lambda: shop().batches.token_prices(["ETH"], size="3"), "size must be a whole number from 1 to 5", "=3"),  # type: ignore[arg-type]
        (lambda: shop().payments.list(limit="3"), "limit must be a whole number, 1 or more, not the str", "=3"),  # type: ignore[arg-type]
        (lambda: shop(max_validity="60"), "max_validity must be a whole number of seconds from 10 to 3600", "=60"),
        (lambda: ChainWitness("https://node.example", timeout="5"), "timeout must be more than 0 seconds", "=5"),  # type: ignore[arg-type]
        (lambda: Ledger("ledger.sqlite3", timeout="5"), "timeout must be 0 to 3600 seconds, not the str '5'", "=5"),  # type: ignore[arg-type]
        (lambda: shop(continue_for="60"), "continue_for must be 0 or more seconds, not the str '60'", "=60"),
    ],
)
def test_a_number_in_quotes_is_a_matter_of_its_type(use: Callable[[], object], said: str, hint: str) -> None:
    with pytest.raises(TradeError) as caught:
        use()
    assert caught.value.message.startswith(said)
    assert "not the str" in caught.value.message
    assert caught.value.hint.startswith("write ")
    assert f"{hint}, without quotes" in caught.value.hint


@each_of("value", [0, 101, True, "five", [5]])
def test_a_hint_says_what_an_argument_is_to_be(value: Any) -> None:
    with pytest.raises(TradeError) as caught:
        bot().agents.list(limit=value)
    assert caught.value.hint == "set limit to a whole number from 1 to 100"


# Of another type

WRONG: list[Any] = [object(), "5", "five", 5, [5], b"x", True, -1, float("nan"), 10**400, {}]
GIVEN: dict[str, Any] = {
    "api_key": KEY,
    "base_url": BASE,
    "rpc_url": "https://node.example",
    "path": "none",
    "password": "p",
    "name": "n",
    "wallet_id": "w",
    "chain_id": 8453,
    "chain": 8453,
    "address": "0x" + "11" * 20,
    "label": "l",
    "signature": "0x",
    "tokens": ["ETH"],
    "token": "ETH",
    "metric": "ROI",
    "model": Signal,
    "items": [],
}
MADE: list[Callable[..., Any]] = [
    *(TradeClient, AsyncTradeClient, MarketClient, AsyncMarketClient, Ledger, Budget, Timeout, RetryPolicy, Risk),
    *(TokenQuery, LocalSigner.from_key, arrow_table, keystore_address),
    *(partial(ChainWitness, "https://node.example"), partial(AsyncChainWitness, "https://node.example")),
]


def _arguments(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {name: argument for name, argument in found.items() if argument.kind in named}


def _bare_errors(function: Callable[..., Any]) -> list[str]:
    """What is no error of the SDK or does not say what to write, for each argument and each value of a wrong type."""
    arguments, found = _arguments(function), []
    needed = {name: GIVEN.get(name, "x") for name, each in arguments.items() if each.default is each.empty}
    needed |= {name: GIVEN[name] for name in ("api_key", "base_url", "rpc_url") if name in arguments}
    for name in arguments:
        for value in WRONG:
            try:
                function(**{**needed, name: value})
            except TradeError as error:
                if error.hint == HINTS["invalid_argument"]:
                    found.append(f"{function}: {name}={value!r:.20}: nothing says what to write: {error}")
            except Exception as error:
                found.append(f"{function}: {name}={value!r:.20}: {error!r:.90}")
    return found


@each_of("make", MADE)
def test_an_argument_of_another_type_is_an_error_of_ours(make: Callable[..., Any]) -> None:
    """For all that users make, every argument: neither a bare TypeError nor an OverflowError from deep inside."""
    assert _bare_errors(make) == []


@each_of("part", ["account", "agents", "wallets", "trades", "positions", "signals", ""])
def test_an_argument_of_another_type_in_the_account_api(part: str) -> None:
    client = bot(http_client=_finding_nothing(), clock=VirtualClock())
    _check_methods(getattr(client, part) if part else client)


@each_of("part", ["quote", "dry_run", "batches", "payments", ""])
def test_an_argument_of_another_type_in_the_market_api(part: str) -> None:
    client = shop(http_client=_finding_nothing(), clock=VirtualClock(), signer=SIGNER)
    _check_methods(getattr(client, part) if part else client)


def _finding_nothing() -> httpx.Client:
    answer = {"error": {"code": "not_found", "message": "no"}}
    return httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(404, json=answer)))


def _check_methods(part: object) -> None:
    methods = dict(inspect.getmembers(part, inspect.ismethod))
    assert methods
    for name in methods:
        assert name[0] == "_" or name == "close" or _bare_errors(methods[name]) == []


# Names that are looked for


@each_of(
    ("use", "right"),
    [
        (lambda c: c.agents.create(name="n", wallet_id="w", chain=8453), "chain_id"),
        (lambda c: c.wallets.connect(address="0x", chain=56, label="l", signature="0x"), "chain_id"),
        (lambda c: c.wallets.connect_with(SIGNER, label="l", chain=56), "chain_id"),
        (lambda c: c.wallets.list(chain=56), "chain_id"),
        (lambda c: c.signals.latest(chain_id=56), "chain"),
        (lambda c: c.signals.history(chain_id=56), "chain"),
        (lambda c: c.signals.stream(chain_id=56), "chain"),
        (lambda c: wallet_message("0x", chain=56), "chain_id"),  # type: ignore[call-arg]
    ],
)
def test_a_chain_by_its_other_name(use: Callable[[Any], object], right: str) -> None:
    with pytest.raises(TypeError, match=f"here it is called {right}="):
        use(bot())


async def test_a_chain_by_its_other_name_in_async_code() -> None:
    async with AsyncTradeClient(api_key=KEY, base_url=BASE) as client:
        with pytest.raises(TypeError, match="here it is called chain="):
            await client.signals.latest(chain_id=56)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="here it is called chain_id="):
            client.wallets.list(chain=56)  # type: ignore[call-arg]
        assert inspect.iscoroutinefunction(client.agents.create)
        assert list(inspect.signature(client.signals.latest).parameters) == ["chain", "limit", "min_confidence"]


def test_every_method_that_takes_a_chain_knows_both_names() -> None:
    """A new method joins the table above."""
    taking = {
        (name, method)
        for name in ("account", "agents", "wallets", "trades", "positions", "signals")
        for method, found in inspect.getmembers(getattr(bot(), name), inspect.ismethod)
        if not method.startswith("_") and {"chain", "chain_id"} & set(inspect.signature(found).parameters)
    }
    assert taking == {
        *(("agents", "create"), ("wallets", "connect"), ("wallets", "connect_with"), ("wallets", "list")),
        *(("signals", "latest"), ("signals", "history"), ("signals", "stream")),
    }


@each_of(
    "noun, verb",
    [
        *(("agents", verb) for verb in ("start", "stop", "pause", "resume")),
        *(("wallets", verb) for verb in ("delete", "remove", "disconnect")),
    ],
)
def test_what_the_api_cannot_do(noun: str, verb: str) -> None:
    resource = getattr(bot(), noun)
    with pytest.raises(AttributeError, match=r"cannot be .*ed through the API, which has no endpoint") as caught:
        getattr(resource, verb)("id_1")
    (note,) = caught.value.__notes__
    assert note.startswith("hint: it is done in the dashboard; ")
    assert f"client.{noun}." in note
    assert not hasattr(resource, verb)
    assert verb not in dir(resource)


@each_of(
    "owner, name, notes",
    [
        (bot().agents, "creat", ["hint: it has create"]),
        (AgentStats(total_trades=1, win_rate_pct=2, total_pnl_usd=3), "win_rate", ["hint: it has win_rate_pct"]),
        (AgentStats(total_trades=1, win_rate_pct=2, total_pnl_usd=3), "pnl", ["hint: it has total_pnl_usd"]),
        (AgentStats(total_trades=1, win_rate_pct=2, total_pnl_usd=3), "fees", []),
    ],
)
def test_another_unknown_name_is_an_ordinary_attribute_error(owner: object, name: str, notes: list[str]) -> None:
    with pytest.raises(AttributeError, match=rf"^'{type(owner).__name__}' object has no attribute '{name}'") as caught:
        getattr(owner, name)
    assert caught.value.name == name
    assert getattr(caught.value, "__notes__", []) == notes
    assert not hasattr(owner, name)


@each_of("given", [{}, {"risk": {}}, {"risk": Risk()}, {"name": None}])
def test_an_update_of_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="nothing to change") as caught:
        client_of(Service()).agents.update("agt_1", **given)
    assert "name=, wallet_id=, risk=, min_confidence=, max_positions=" in caught.value.hint  # type: ignore[attr-defined]


# Money


def test_money_is_shown_in_dollars_under_the_name_that_has_dollars() -> None:
    ledger = Ledger.memory()
    spending = ledger.spending(Budget(per_day="5"), now=0)
    quote = Quote(path="/v1/x", body=b"{}", tokens=1, amount=30_000, spending=spending)
    result = MarketResult(data=None, quote=quote)
    receipt = Receipt(success=True, transaction="0x", network="base", amount=30_000, raw={})
    details = BudgetDetails(cost=Decimal("0.06"), limit="per_day", limit_amount=Decimal(5), left=Decimal("1E-6"))
    shown = {
        repr(spending): ["today=WindowSpending(spent_usd=$0.00, held_usd=$0.00, limit_usd=$5.00)"],
        repr(quote): ["price=$0.03", "path='/v1/x'", "spent_usd=$0.00"],
        repr(Batch(number=1, count=1, tokens=(), result=result, spent=260_000, again=False)): ["spent_usd=$0.26"],
        repr(receipt): ["amount_usd=$0.03", "payer=None"],
        repr(payment(amount=30_000)): ["amount_usd=$0.03"],
        repr(details): ["cost=$0.06", "limit_amount=$5.00", "left=$0.000001", "spent=None"],
        repr(PriceDetails(price=Decimal("0.30"), allowed=Decimal("0.03"))): ["price=$0.30", "allowed=$0.03"],
        repr(PaymentRefusedError("no", code="no_budget", details=details).details): ["cost=$0.06"],
    }
    for text, parts in shown.items():
        assert [part for part in parts if part not in text] == [], text


def test_an_unsent_request_has_no_response() -> None:
    with pytest.raises(RateLimitError) as caught:
        unsent()
    assert caught.value.response is None


def test_a_command_in_a_message_can_be_pasted() -> None:
    """`--mark paid|unpaid` is a pipe."""
    for file in Path(tradesdk.__file__).parent.parent.glob("tradesdk*/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.search(r"--\w[\w-]* \w+\|\w|^\|\w+$", node.value), (file, node.lineno)
