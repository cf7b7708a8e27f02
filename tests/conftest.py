"""What holds for all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import itertools
import os
import random
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, find, settings
from hypothesis import strategies as st

from ._postgres import Postgres
from ._seeds import one_of

# Shells ignore SIGINT for what they start in the background, and nohup ignores SIGHUP: what the tests start would, too.
with contextlib.suppress(ValueError):  # only the main thread may, and elsewhere nobody sends them
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.name == "posix" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Programs that the tests start would be compiled again each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same draws in every run: nobody's first one fails on a rare draw. scripts/long names a seed: new draws, and more;
# TRADE_EXAMPLES says how many, and scripts/soak draws thousands.
SEED = os.environ.get("TRADE_SEED", "")
EXAMPLES = int(os.environ.get("TRADE_EXAMPLES") or 100)
# How long examples take to draw says something about the machine, and nothing about what is tested.
slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("the same", slow, derandomize=True, database=None, max_examples=15)
settings.register_profile("anew", slow, print_blob=True, max_examples=EXAMPLES)
settings.load_profile("anew" if SEED else "the same")
if not SEED:
    # Constants of what is loaded are drawn too: each worker would read all sources for them, and not draw the same.
    with contextlib.suppress(ImportError):  # the lowest version of hypothesis draws none
        from hypothesis.internal.conjecture import providers

        providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite tests/cli/sessions/*.txt to what comes out now")


def pytest_configure(config: pytest.Config) -> None:
    """Write the tests of the blocking flavour from those of the async one, before workers look for tests."""
    if hasattr(config, "workerinput"):
        return
    spec = importlib.util.spec_from_file_location("unasync", Path(__file__).parent.parent / "scripts" / "unasync.py")
    assert spec is not None
    assert spec.loader is not None
    unasync = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(unasync)
    if problems := unasync.write_tests():
        raise pytest.UsageError("tests/_sync: " + "; ".join(problems))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready() -> None:
    """In a new checkout hypothesis makes a table of all characters: once, instead of in each worker."""
    if not Path(".hypothesis").exists():
        find(st.text(), lambda text: True, settings=settings(max_examples=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """What all tests share is set here: each fixture that holds for all of them would cost every test a little."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        # Not the home of who runs the tests: a ledger of another version there would be refused.
        patch.setenv("TRADE_HOME", home)
        make_tables_once(patch)
        make_prices_once(patch)
        return (yield)


def make_tables_once(patch: pytest.MonkeyPatch) -> None:
    """Mocks and ledgers in memory begin with a copy of the first one's empty tables: SQL takes four times as long."""
    from tradesdk.payments.ledger import opening
    from tradesdk_mock.state.database import Database

    prepare, create, mock, ledger = Database._prepare, opening._create_tables, b"", b""

    def prepare_or_copy(database: Database) -> None:
        nonlocal mock
        if mock and database.path is None:
            database._db.deserialize(mock)
        prepare(database)
        if not mock and database.path is None:
            mock = database._db.serialize()

    def create_or_copy(db: sqlite3.Connection, path: str, consequence: str) -> None:
        nonlocal ledger
        if ledger and path == "in memory":
            db.deserialize(ledger)
        create(db, path, consequence)
        if not ledger and path == "in memory":
            ledger = db.serialize()

    patch.setattr(Database, "_prepare", prepare_or_copy)
    patch.setattr(opening, "_create_tables", create_or_copy)


def make_prices_once(patch: pytest.MonkeyPatch) -> None:
    """Many tests fill a world of the same seed: the caches hold a whole history, which takes half of filling it."""
    from tradesdk_mock.market import price_model

    for name in ("_HOURS", "_DAYS"):
        patch.setattr(price_model, name, 4 * getattr(price_model, name))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker tells how a test ended, and of its fixtures only what failed: telling takes longer than most tests."""
    wanted = any(item.config.getoption(name, None) is not None for name in ("durations", "xmlpath"))
    if wanted or not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            report.keywords = {}
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    random.seed(SEED + item.nodeid)  # what the clients draw: jitter


def pytest_runtest_teardown() -> None:
    """What respx intercepts for clients made by `client_of` ends with the test."""
    answers = sys.modules.get("tests._answers")  # few tests need it, and it imports much
    if answers is not None and answers.SCRIPTED.routes:
        answers.SCRIPTED.stop(clear=True, reset=True)


# Under trio these are the same decisions once more: connections, deadlines, cancellation and the rest stay in the quick
# run, and these are played by scripts/long.
SAME_UNDER_TRIO = {
    "_async": (
        *("test_chain_witness", "test_client", "test_log_fields", "test_market_", "test_named_"),
        *("test_paying_", "test_purchases", "test_throttle", "test_unreadable", "test_waits"),
    ),
    "e2e": ("test_stream_",),
}

# Slow, and seldom broken: whole files that are played by scripts/long.
STEADY = {
    # Their blocking twins are played at once.
    "_async": (
        *("test_create_lookup", "test_errors", "test_hostile_answers", "test_market_guards"),
        "test_market_hostile",
        *(
            "test_market_hostile_answers",
            "test_market_options",
            "test_market_raw",
            "test_paying_scenarios",
            "test_paying_strict",
            "test_requests",
            "test_retries",
        ),
        *("test_chain_witness", "test_named_purchases", "test_purchases", "test_paying_hostile"),
        *("test_market_batches", "test_market_payments", "test_paying_interrupted", "test_paying_schedules"),
        *("test_pager", "test_market_client"),
        *("test_stream_behavior_history", "test_stream_outage", "test_stream_promise", "test_stream_bad_input"),
        *("test_stream_behavior_checkpoint", "test_stream_behavior_clocks", "test_shared_rate_limit", "test_relay"),
    ),
    "cli": (
        *("test_demo", "test_mockworld", "test_mock_journal", "test_mock_serve", "test_mock_world"),
        *("test_processes", "test_stream_ends", "test_stream_processes", "test_stream_resume"),
    ),
    "e2e": (
        *("test_first_failure", "test_many_streams", "test_stream_kills"),
        "test_gaps",
        "test_in_process",
        "test_ledger_processes",
        "test_mock_kills",
        "test_mock_processes",
        "test_payment_budget_shared",
        "test_payment_kills",
        "test_stream_closing",
        "test_stream_faults",
        "test_stream_surroundings",
        "test_two_terminals",
    ),
    "mock": (
        *("test_background_tenant", "test_crossovers", "test_determinism", "test_ledger", "test_market_port"),
        *("test_market_signals", "test_market_strangers", "test_openapi_answers", "test_pages", "test_plugin"),
        *("test_population", "test_prices", "test_raw_http", "test_scenarios", "test_signals"),
        *("test_snapshots", "test_state_files", "test_strangers", "test_stream_life", "test_stream_trouble"),
        *("test_threads", "test_transport", "test_transport_time"),
    ),
    "tests": (*("test_backtest", "test_backtest_runs", "test_package", "test_pictures", "test_stream_examples"),),
    "unit": ("test_deduplicator_walks", "test_unasync"),
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick run doesn't read what it leaves out: rewriting its assertions takes as long as many tests."""
    folder, wanted = collection_path.parent.name, config.option.markexpr
    if collection_path.stem in STEADY.get(folder, ()):
        return True if "not long" in wanted else None
    return True if collection_path.match("tests/peers/test_official_*.py") and "not peers" in wanted else None


modules_made = itertools.count()


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule(parent: pytest.Collector) -> Generator[None, pytest.Module, pytest.Module]:
    """Each worker first imports its share of a folder: what it rewrites and compiles, the others find on the disk."""
    module = yield
    worker = getattr(parent.config, "workerinput", None)
    if worker is not None and f"gw{next(modules_made) % worker['workercount']}" == worker["workerid"]:
        with contextlib.suppress(parent.CollectError, pytest.skip.Exception):  # raised again when it is collected
            _ = module.obj
    return module


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collection makes stays until the end: searching it for garbage takes a third of collection's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()  # not frozen: hypothesis looks for referrers, and finds none among what is
        gc.set_threshold(50_000, 20, 100)  # else searching what collection made takes a twentieth of the run


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Finds all garbage that is left, and its warnings; pytest searches ten times after this, and then in less."""
    while gc.collect():
        pass
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    examples = [item for item in items if item.name.startswith("test_example[") and item.path.name == "test_help.py"]
    for place, item in enumerate(examples):  # quick: the first of two; no mock, demo or payment
        if place % 2 or any(noun in item.name for noun in ("trade mock", "trade demo", "market", "pay ")):
            item.add_marker(pytest.mark.long)
    drawn = one_of(["[asyncio", "[trio"])
    left_out: set[pytest.Item] = set()
    for item in items:
        folder, name = item.path.parent.name, item.path.name
        steady = name.removesuffix(".py") in STEADY.get(folder, ())
        same = name.startswith(SAME_UNDER_TRIO.get(folder, ())) and ("[trio" in item.name or "[asyncio" in item.name)
        if steady or (same and "[trio" in item.name):
            item.add_marker(pytest.mark.long)
        # The quick run plays neither, and scripts/long one of the two: the decisions are the same.
        if steady and same and not any(loop in item.name for loop in drawn):
            left_out.add(item)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, the same for all tests of this process."""
    server = Postgres()
    yield server
    server.stop()
