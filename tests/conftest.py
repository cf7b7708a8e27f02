"""What holds for all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import logging
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings

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

# Ledgers and databases wait for the disk at every step of a payment. In memory that takes no time.
MEMORY = Path("/dev/shm")  # noqa: S108 - only its folders of this user are used
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # pytest has looked for it already

LIMIT = sys.getrecursionlimit()

# The same draws in every run: nobody's first one fails on a rare draw. scripts/long names a seed: new draws, and more;
# TRADE_EXAMPLES says how many, and scripts/soak draws thousands.
SEED = os.environ.get("TRADE_SEED", "")
EXAMPLES = int(os.environ.get("TRADE_EXAMPLES") or 100)
# How long examples take to draw says something about the machine, and nothing about what is tested.
slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("the same", slow, derandomize=True, database=None, max_examples=10)
settings.register_profile("anew", slow, print_blob=True, max_examples=EXAMPLES)
settings.load_profile("anew" if SEED else "the same")


QUICK = 0.3  # seconds that a quick test may take on an idle machine
# Quick tests that take longer: each is one table or one model that is not told in less, or has to start programs.
LONGER = {
    "mock/test_faults.py": "every fault in every answer",
    "mock/test_gaps.py": "which status under each value of each option",
    "unit/test_ledger_cases.py": "what every ledger does",
    "unit/test_every_course.py": "all courses of two calls",
    "_sync/test_paying_scenarios.py": "what may go wrong with a purchase",
    "contract/test_service_agents.py": "random patches",
    "contract/test_deep_answers.py": "a program that must not crash",
    "cli/test_sessions.py": "whole sessions",
    "cli/test_mcp.py": "every tool",
    "cli/test_cells.py": "any text in any column",
    "cli/test_formats.py": "any text in any format",
    "test_secrets.py": "every place where a secret may show",
    "test_surface.py": "what a program loads that makes a client",
    "test_docs.py": "the pages' programs",
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says which quick tests took long, and are none of those: a note, as a busy machine makes any test slow."""
    if "not long" not in config.option.markexpr:
        return
    reports = [one for found in terminalreporter.stats.values() for one in found if getattr(one, "when", "") == "call"]
    slow = sorted((one for one in reports if one.duration > QUICK), key=lambda one: -one.duration)
    slow = [one for one in slow if one.nodeid.partition("::")[0].removeprefix("tests/") not in LONGER]
    if slow:
        shown = ", ".join(f"{one.nodeid} ({one.duration:.1f} s)" for one in slow[:5])
        terminalreporter.write_line(f"{len(slow)} quick tests took more than {QUICK} s, which is long: {shown}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite tests/cli/sessions/*.txt to what comes out now")


def pytest_configure(config: pytest.Config) -> None:
    """Write the tests of the blocking flavour from those of the async one, before workers look for tests."""
    if hasattr(config, "workerinput"):
        config.option.markexpr = config.workerinput["markexpr"]
        return
    spec = importlib.util.spec_from_file_location("unasync", Path(__file__).parent.parent / "scripts" / "unasync.py")
    assert spec is not None
    assert spec.loader is not None
    unasync = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(unasync)
    if problems := unasync.write_tests():
        raise pytest.UsageError("tests/_sync: " + "; ".join(problems))
    if config.args_source is not pytest.Config.ArgsSource.ARGS and not config.option.markexpr:
        config.option.markexpr = "not long and not peers"  # who names a file means all of it


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers of xdist get the command's options, and not what was made of them."""
    node.workerinput["markexpr"] = node.config.option.markexpr


class Unformatted(logging.Handler):
    """Records of the SDK whose text does not fit its fields: the SDK drops what logging raises."""

    found: ClassVar[list[logging.LogRecord]] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            record.getMessage()
        except Exception:
            self.found.append(record)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """What all tests share is set here: each fixture that holds for all of them would cost every test a little."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        # Not the home of who runs the tests: a ledger of another version there would be refused.
        patch.setenv("TRADE_HOME", home)
        logging.getLogger("tradesdk").addHandler(Unformatted())
        return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    random.seed(SEED + item.nodeid)  # what the clients draw: jitter
    sys.setrecursionlimit(LIMIT)  # eth_account raises it: who imports it would decide what is too deep for others


def pytest_runtest_teardown() -> None:
    """What respx intercepts for clients made by `client_of` ends with the test."""
    assert not Unformatted.found, [record.msg for record in Unformatted.found]
    answers = sys.modules.get("tests._answers")  # few tests need it, and it imports much
    if answers is not None and answers.SCRIPTED.routes:
        answers.SCRIPTED.stop(clear=True, reset=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick run doesn't import files that it plays nothing of: rewriting their assertions takes long."""
    is_test = collection_path.suffix == ".py" and collection_path.stem != "conftest"
    return True if is_test and left_out(collection_path, config) else None


def left_out(path: Path, config: pytest.Config) -> bool:
    """Whether nothing of a file is played, by the mark at its top."""
    marks = [name for name in ("long", "peers") if f"not {name}" in config.option.markexpr]
    if "long" in marks and path.parent.name == "_async":
        marks.append("twin")
    mark = re.search(r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", path.read_text(), re.MULTILINE)
    return mark is not None and mark[1] in marks


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What collection makes stays until the end: searching it for garbage takes a third of collection's time."""
    gc.disable()
    try:
        import_my_share(session)
        return (yield)
    finally:
        gc.enable()  # not frozen: hypothesis looks for referrers, and finds none among what is
        gc.set_threshold(50_000, 20, 100)  # else searching what collection made takes a twentieth of the run


def import_my_share(session: pytest.Session) -> None:
    """In a first run, all workers would rewrite the assertions of the same file at the same time: two thirds of what
    collection takes. Each begins with other files, and finds the rest written.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    files = [path for path in sorted(Path(__file__).parent.rglob("test_*.py")) if not left_out(path, session.config)]
    for path in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collection will say it
            _ = pytest.Module.from_parent(session, path=path).obj


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Finds the garbage that is left, and its warnings; pytest searches ten times after this, and then in less."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What decides is the same in both flavours, and under both loops: the quick run plays one.

    A long run plays the others, of a twin's loops the one that its seed draws.
    """
    left_out = [f"[{loop}" for loop in ("asyncio", "trio") if loop not in one_of(["asyncio", "trio"])]
    found: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        is_twin = item.path.parent.name == "_async" and item.get_closest_marker("twin") is not None
        if is_twin or "[trio" in item.name:
            item.add_marker(pytest.mark.long)
        found[not (is_twin and any(loop in item.name for loop in left_out))].append(item)
    items[:] = found[True]
    if found[False]:
        config.hook.pytest_deselected(items=found[False])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, the same for all tests of this process."""
    server = Postgres()
    yield server
    server.stop()
