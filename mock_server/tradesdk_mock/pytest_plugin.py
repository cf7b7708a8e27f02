"""The pytest plugin: a service for every test (`trade_mock`), and a server for all of them (`trade_mock_url`).

pytest loads this module in every run if the package is installed. So it imports only what a run without these fixtures
needs, and uses only what older versions of pytest have.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest

if TYPE_CHECKING:
    from .control.service import MockService
    from .core.clock import MockClock
    from .core.gap_options import GapOptions
    from .core.request_log import JournalEntry
    from .serving.uvicorn_server import MockServer

SEED = 7
START = 1_800_000_000
OPTIONS = ("seed", "start", "frozen", "signals", "gaps", "populate")
MARK = (
    "trade_mock(*, seed=7, start=1800000000, frozen=True, signals='scripted', gaps={}, populate=[]): what the fixture"
    " trade_mock is for this test: the world's seed; what its clock shows (Unix seconds or an aware datetime), and"
    " whether it is frozen; 'live' for a market that publishes by itself; gap options by name; tenants that get"
    " wallets, agents and trades. A mark nearer to the test wins, option by option."
)
# The number of requests that a failed test shows.
_SHOWN = 20

# Data of tests and runs: not in pytest's own stash, which older versions lack.
_services: WeakKeyDictionary[pytest.Item, MockService] = WeakKeyDictionary()
_servers: WeakKeyDictionary[pytest.Config, MockServer] = WeakKeyDictionary()
# The server's last request before a test.
_before: WeakKeyDictionary[pytest.Item, int] = WeakKeyDictionary()


@pytest.fixture
def trade_mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    """A trading service for this test alone, without sockets: `httpx.Client(transport=trade_mock.transport())`.

    It is always the same: seed 7, a clock that is frozen at 2027-01-15 08:00 UTC until a wait moves it, and
    no new signals but those that the test emits. The mark `trade_mock` changes that.
    """
    with _make(_options(request.node), _base(request.config)) as mock:
        _services[request.node] = mock
        yield mock


@pytest.fixture(scope="session")
def trade_mock_server(request: pytest.FixtureRequest) -> Iterator[MockServer]:
    """The trading service on a port of this machine, for all tests of the run (of the worker, under xdist).

    Time is real and the market publishes by itself. Tests keep apart by using tenants, and so keys, of their own:
    `mock_full_NAME` as a key makes the tenant NAME.
    """
    try:
        from .serving.uvicorn_server import MockServer
    except ModuleNotFoundError as error:
        raise pytest.fail.Exception(f"trade_mock_server: {error}", pytrace=False) from None
    with MockServer(seed=SEED, gaps=_base(request.config)) as server:
        _servers[request.config] = server
        yield server


@pytest.fixture(scope="session")
def trade_mock_url(trade_mock_server: MockServer) -> str:
    """The address of `trade_mock_server`, without the version prefix: `http://127.0.0.1:PORT`."""
    return trade_mock_server.url


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "gap options of all mocks: a JSON file, as `trade doctor --service --gaps FILE` writes it"
    parser.getgroup("trade_mock").addoption("--trade-mock-gaps", metavar="FILE", help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    names = getattr(item, "fixturenames", ())
    if "trade_mock" in names:
        _options(item)
    if "trade_mock_server" in names:
        if "trade_mock" not in names and any(mark.name == "trade_mock" for mark in item.own_markers):
            raise _wrong("it is for the fixture trade_mock; all tests share the server of trade_mock_url")
        server = _servers.get(item.config)
        _before[item] = server.world.journal.last if server else 0


# The older kind of wrapper, which older versions of pytest support too.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    report: pytest.TestReport = (yield).get_result()
    if not report.failed:
        return
    mock = _services.get(item)
    if mock is not None:
        report.sections.append(_section("trade_mock", mock.journal()))
    server = _servers.get(item.config)
    if server is not None and item in _before:
        report.sections.append(_section("trade_mock_server", server.world.journal.entries(after=_before[item])))


def _options(item: pytest.Item) -> dict[str, Any]:
    """The options in the marks of a test. The test fails for an unknown one."""
    found: dict[str, Any] = {}
    for mark in reversed([*item.iter_markers("trade_mock")]):
        if mark.args:
            raise _wrong(f"options are given by name: {', '.join(OPTIONS)}")
        unknown = sorted(mark.kwargs.keys() - set(OPTIONS))
        if unknown:
            raise _wrong(f"there is no option {unknown[0]!r}; there are: {', '.join(OPTIONS)}")
        found.update(mark.kwargs)
    return found


def _base(config: pytest.Config) -> GapOptions:
    """The gap options of the file named on the command line."""
    from .core.gap_options import GapOptions

    file = config.getoption("--trade-mock-gaps")
    try:
        return GapOptions() if file is None else GapOptions.from_file(file)
    except ValueError as error:
        raise pytest.UsageError(f"--trade-mock-gaps: {error}") from None


def _make(options: Mapping[str, Any], gaps: GapOptions) -> MockService:
    """The service with these options. The test fails when they are invalid."""
    from .control.service import MockService
    from .core.errors import MockServerError

    populate = options.get("populate", ())
    try:
        mock = MockService(
            seed=_checked("seed", options.get("seed", SEED), int),
            gaps=_gaps(options.get("gaps", {}), gaps),
            clock=_clock(options.get("start", START), frozen=_checked("frozen", options.get("frozen", True), bool)),
            signals=_checked("signals", options.get("signals", "scripted"), str),
        )
        try:
            for tenant in [populate] if isinstance(populate, str) else _checked("populate", populate, list | tuple):
                mock.populate(_checked("populate", tenant, str))
        except BaseException:
            mock.close()
            raise
        return mock
    except (MockServerError, ValueError) as error:
        raise _wrong(str(error)) from None


def _checked(name: str, value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        expected = {int: "an integer", bool: "True or False", str: "text"}.get(kind, "a list of texts")
        raise ValueError(f"{name}: must be {expected}, not {value!r}")
    return value


def _gaps(options: object, base: GapOptions) -> GapOptions:
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise ValueError(f"gaps: must be names and values as in {{'write_status': '200/200'}}, not {options!r}")
    return base.changed(**options)


def _clock(start: object, *, frozen: bool) -> MockClock:
    from datetime import datetime

    from .core.clock import MockClock

    if isinstance(start, datetime) and start.tzinfo is not None:
        start = start.timestamp()
    if isinstance(start, bool) or not isinstance(start, int | float):
        raise ValueError(f"start: must be Unix seconds or an aware datetime, not {start!r}")
    clock = MockClock(start)
    if not frozen:
        clock.resume()
    return clock


def _section(fixture: str, entries: Sequence[JournalEntry]) -> tuple[str, str]:
    """Title and text of a report section: the latest requests, with seconds since the first one."""
    from .control.assertions import line

    latest = entries[-_SHOWN:]
    lines = [f"{entry.at - entries[0].at:9.2f} s  {line(entry)}" for entry in latest]
    which = f" (the last {len(latest)} of {len(entries)})" if len(latest) < len(entries) else ""
    return f"requests to {fixture}{which}", "\n".join(lines) or "none"


def _wrong(text: str) -> BaseException:
    """The failure of a test whose mark is invalid."""
    return pytest.fail.Exception(f"@pytest.mark.trade_mock: {text}", pytrace=False)
