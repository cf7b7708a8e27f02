"""What users of the SDK see: the public names, their documentation, and what importing them costs."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import AsyncMock, create_autospec

import pytest

import tradesdk
import tradesdk.payments
import tradesdk.types

from ._rows import each_of

SRC = Path(__file__).parent.parent / "src"

PUBLIC = {
    "TradeClient",
    "AsyncTradeClient",
    "RawResponse",
    "RateLimit",
    "RateLimiter",
    "AsyncRateLimiter",
    "RetryPolicy",
    "Clock",
    "SystemClock",
    "Timeout",
    "Page",
    "Pager",
    "AsyncPager",
    "Risk",
    "Signer",
    "wallet_message",
    "LocalSigner",
    "Account",
    "Usage",
    "Quota",
    "Agent",
    "AgentSummary",
    "AgentStats",
    "Wallet",
    "WalletBalance",
    "TokenBalance",
    "Trade",
    "TradeDetail",
    "Position",
    "Signal",
    "ErrorCode",
    "TradeError",
    "ConfigError",
    "InvalidArgumentError",
    "APIError",
    "APIConnectionError",
    "APITimeoutError",
    "APIStatusError",
    "InvalidRequestError",
    "InvalidSignatureError",
    "AuthenticationError",
    "PermissionDeniedError",
    "NotFoundError",
    "ConflictError",
    "UnprocessableEntityError",
    "RateLimitError",
    "InternalServerError",
    "BadGatewayError",
    "ServiceUnavailableError",
    "APIResponseError",
    "AmbiguousOutcomeError",
    "StreamError",
    "StreamEndedError",
    "CheckpointError",
    "FleetError",
    "SignalStream",
    "AsyncSignalStream",
    "StreamSignal",
    "Heartbeat",
    "UnknownEvent",
    "InvalidEvent",
    "PositionReset",
    "Gap",
    "Connected",
    "Disconnected",
    "StreamStats",
    "MarketClient",
    "AsyncMarketClient",
    "BatchRun",
    "AsyncBatchRun",
    "Batch",
    "TokenQuery",
    "Budget",
    "Spending",
    "WindowSpending",
    "Ledger",
    "Quote",
    "DryRun",
    "MarketResult",
    "Payment",
    "PaymentStage",
    "Receipt",
    "Reconciliation",
    "ChainWitness",
    "AsyncChainWitness",
    "arrow_table",
    "create_keystore",
    "keystore_address",
    "AggregateMetrics",
    "SignalRecord",
    "SupportedToken",
    "SupportedTokens",
    "TokenAvgPrices",
    "TokenPrice",
    "TokenResults",
    "TokenSignals",
    "TokenWinRate",
    "TopPerformer",
    "TopPerformers",
    "PaymentError",
    "PaymentRefusedError",
    "PaymentRejectedError",
    "PaymentOutcomeUnknownError",
    "PaymentUndeliveredError",
    "LedgerError",
    "__version__",
}
IN_PAYMENTS = {
    "AccountCode",
    "BudgetDetails",
    "ChainVerdict",
    "DigestSigner",
    "PaymentProof",
    "PriceDetails",
    "ReasonCode",
    "RecipientDetails",
    "SignedHeader",
    "TokenDetails",
    "TypedDataSigner",
    "WalletDetails",
}
IN_TYPES = {
    "Failure",
    "FailureCause",
    "MarketModel",
    "Operation",
    "RateClaim",
    "RetryAction",
    "RetryWait",
    "StreamItem",
}
NAMES: list[tuple[ModuleType, set[str]]] = [
    (tradesdk, PUBLIC),
    (tradesdk.payments, IN_PAYMENTS),
    (tradesdk.types, IN_TYPES),
]


@each_of(("package", "names"), NAMES, ids=lambda one: getattr(one, "__name__", ""))
def test_public_names_are_the_written_ones(package: ModuleType, names: set[str]) -> None:
    assert dir(package) == sorted(names)


@each_of(("package", "names"), NAMES, ids=lambda one: getattr(one, "__name__", ""))
def test_type_checkers_and_programs_find_the_same_under_a_name(package: ModuleType, names: set[str]) -> None:
    tree = ast.parse(Path(str(package.__file__)).read_text("utf-8"))
    checked = {
        alias.asname: f"{'.' * node.level}{node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
        if alias.asname
    }
    assert checked.keys() == names
    for name, module in checked.items():
        assert getattr(package, name) is getattr(importlib.import_module(module, package.__package__), name)


@pytest.mark.long
def test_a_star_brings_the_public_names_and_nothing_else() -> None:
    """In a fresh interpreter, as the first line: nothing is loaded then that could be there by chance."""
    program = "before = set(globals()); from tradesdk import *; print(*sorted(set(globals()) - before - {'before'}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # the line above
    assert set(done.stdout.split()) == PUBLIC - {"__version__"}
    assert set(vars(tradesdk)["__all__"]) == PUBLIC - {"__version__"}


def test_help_begins_with_a_page() -> None:
    page = (tradesdk.__doc__ or "").splitlines()
    assert 30 < len(page) < 70
    named = set(re.findall(r"\w+", " ".join(page)))
    assert {"TradeClient", "MarketClient", "AsyncTradeClient", "APIError", "PaymentRefusedError", "Budget"} <= named
    unknown = {name for name in named if re.fullmatch(r"([A-Z][a-z]+){2,}|API\w+", name)} - PUBLIC
    assert unknown == set()


@pytest.mark.long
@each_of("name", ["TradeClient", "AsyncTradeClient", "MarketClient", "AsyncMarketClient"])
@each_of("instance", [True, False])
def test_autospec_sees_the_methods_of_a_clients_parts(name: str, instance: bool) -> None:
    client = getattr(tradesdk, name)
    spec: Any = create_autospec(client, instance=instance)
    made = spec if instance else spec(base_url="https://service.example")
    parts = [part for part, value in vars(client).items() if isinstance(value, cached_property)]
    assert len(parts) >= 4
    for part in parts:
        methods = [word for word in dir(type(getattr(client, part))) if not word.startswith("_")]
        assert methods
        for method in methods:
            mocked = getattr(getattr(made, part), method)
            with pytest.raises(TypeError):
                mocked(not_an_argument=True)
            waits = inspect.iscoroutinefunction(getattr(getattr(client, part), method))
            assert isinstance(mocked, AsyncMock) == waits
        with pytest.raises(AttributeError):
            getattr(made, part).not_a_method  # noqa: B018
    if "Trade" in name:
        made.agents.get.return_value = "mine"
        if not name.startswith("Async"):
            assert made.agents.get("agt_1") == "mine"


@each_of(
    ("name", "part", "method"), [("TradeClient", "account", "get"), ("MarketClient", "quote", "aggregate_metrics")]
)
def test_a_call_of_the_class_says_that_a_client_is_missing(name: str, part: str, method: str) -> None:
    with pytest.raises(TypeError, match="make a client first"):
        getattr(getattr(getattr(tradesdk, name), part), method)()


@each_of(("package", "names"), NAMES, ids=lambda one: getattr(one, "__name__", ""))
def test_public_names_are_there_and_documented(package: ModuleType, names: set[str]) -> None:
    for name in sorted(names):
        value = getattr(package, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
            assert (own or "").strip(), f"{name} has no docstring of its own"
            assert not value.__module__.startswith("tradesdk_")


@each_of("client", ["TradeClient", "AsyncTradeClient"])
def test_every_public_method_is_documented(client: str) -> None:
    undocumented, seen = [], []
    resources = importlib.import_module(f"tradesdk.{'_async' if client.startswith('Async') else '_sync'}.resources")
    classes = [getattr(tradesdk, client), getattr(tradesdk, client.replace("TradeClient", "Pager"))]
    for file in sorted(Path(str(resources.__path__[0])).glob("[a-z]*.py")):
        module = importlib.import_module(f"{resources.__name__}.{file.stem}")
        classes += [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    for one in classes:
        for name, member in vars(one).items():
            if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
                continue
            seen.append(name)
            if not inspect.getdoc(member):
                undocumented.append(f"{one.__qualname__}.{name}")
    assert undocumented == []
    assert {
        "get",
        "usage",
        "list",
        "create",
        "update",
        "delete",
        "connect",
        "connect_with",
        "balance",
        "latest",
        "history",
    } <= set(seen)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'TradeKlient'"):
        _ = tradesdk.TradeKlient  # type: ignore[attr-defined]  # the point of the test


def loaded_by(code: str, *flags: str, given: str = "") -> set[str]:
    """The modules that ``code`` loads in a fresh interpreter, on top of what was there after ``given``."""
    program = f"""
import sys
sys.path.insert(0, {str(SRC)!r})
{given}
before = set(sys.modules)
{code}
print(*sorted(set(sys.modules) - before))
"""
    command = [sys.executable, "-I", *flags, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # the program above
    return set(done.stdout.split())


def test_importing_the_sdk_loads_nothing() -> None:
    """Without ``site``, so that nothing hides behind what an editable install or a coverage hook loads."""
    assert loaded_by("import tradesdk", "-S") <= {"tradesdk", "tradesdk._exports", "tradesdk._version"}


# What the two libraries below load themselves (httpx takes rich and trio where it finds them) is not ours to judge.
LIBRARIES = "import httpx, pydantic; httpx.Client().close()"
HEAVY = {
    "eth_account",
    "eth_keys",
    "coincurve",
    "tenacity",
    "filelock",
    "pyarrow",
    "pandas",
    "polars",
    "numpy",
    "rich",
    "typer",
    "anyio",
    "trio",
    "asyncio",
    "tradesdk_mock",
    "tradesdk_cli",
}


@pytest.mark.parametrize(
    ("client", "never"),
    [
        ("TradeClient", HEAVY | {"tradesdk._async", "tradesdk.payments"}),
        pytest.param(
            *("AsyncTradeClient", HEAVY - {"anyio", "asyncio"} | {"tradesdk._sync", "tradesdk.payments"}),
            marks=pytest.mark.long,
        ),
    ],
)
def test_making_a_client_loads_only_what_it_needs(client: str, never: set[str]) -> None:
    make = f"from tradesdk import {client}; {client}(api_key='k', base_url='https://service.example')"
    loaded = loaded_by(make, given=LIBRARIES)
    assert f"tradesdk.{'_async' if client.startswith('Async') else '_sync'}.client" in loaded
    assert loaded & never == set()


@pytest.mark.long
@pytest.mark.parametrize("client", ["TradeClient", "MarketClient"])
def test_a_profile_is_read_only_when_it_is_named(client: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "bob").write_text("k")
    (tmp_path / "keys" / "bob").chmod(0o600)
    config.write_text('profile = "bob"\n[profiles.bob]\nbase_url = "https://a.example"\nkey = "file"\n')
    given = "import os; os.environ |= {'TRADE_HOME': %r, 'TRADE_API_KEY': 'k', 'TRADE_BASE_URL': 'https://b.example'}"
    make = f"from tradesdk import {client}; {client}()"
    reading = {"tradesdk._local.clients", "tradesdk._local.profiles", "tradesdk._local.keys", "tomllib", "keyring"}
    config.chmod(0o666)  # it would be refused
    assert loaded_by(make, given=given % str(tmp_path)) & reading == set()
    config.chmod(0o600)
    make = f"from tradesdk import {client}; {client}(profile='bob')"
    given = given.replace("'TRADE_API_KEY': 'k', 'TRADE_BASE_URL': 'https://b.example'", "")
    assert loaded_by(make, given=given % str(tmp_path)) & reading == reading - {"keyring"}


def test_errors_load_without_the_network() -> None:
    loaded = loaded_by("from tradesdk import NotFoundError, TradeError")
    assert "tradesdk.errors" in loaded
    assert loaded & ({"httpx", "pydantic"} | HEAVY) == set()
