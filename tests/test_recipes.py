"""What the page of recipes shows and tests/test_docs.py cannot run: services, units, images and timetables."""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import TradeClient
from tradesdk_mock import MockClock, MockServer

from ._pages import ROOT, Block, blocks
from ._stock import stocked
from .cli._services import scripted
from .test_docs import SHOWN_AT, home, prepare_world

__all__ = ["home"]  # a fixture

pytestmark = pytest.mark.long

PAGE = ROOT / "docs" / "recipes.md"


def shown(language: str) -> Block:
    (block,) = [block for block in blocks(PAGE) if block.language == language]
    return block


def test_a_bot_in_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    import fastapi_bot

    async def soon(is_so: Callable[[], Awaitable[bool]]) -> None:
        while not await is_so():  # noqa: ASYNC110 - the server is asked, in this process or not
            await asyncio.sleep(0.01)

    async def play(server: MockServer) -> None:
        transport = httpx.ASGITransport(fastapi_bot.app)
        async with (
            fastapi_bot.app.router.lifespan_context(fastapi_bot.app),
            httpx.AsyncClient(transport=transport, base_url="http://bot") as http,
        ):
            assert (await http.get("/signals")).json() == []
            assert "base-momentum: active" in (await http.get("/agents")).json()

            async def is_followed() -> bool:
                return bool(server.status()["streams"])

            async def has_signals() -> bool:
                return bool((await http.get("/signals")).json())

            async def is_ill() -> bool:
                return (await http.get("/health")).status_code == 503

            await soon(is_followed)
            emitted = server.emit_signal()
            await soon(has_signals)
            assert [signal["id"] for signal in (await http.get("/signals")).json()] == [emitted.id]
            assert (await http.get("/health")).json() == {"status": "ok"}
            server.revoke_key(str(server.list_keys()[0]["id"]))
            server.add_fault("drop", route="/v1/signals/stream", after=0)
            server.emit_signal()
            await soon(is_ill)

    with MockServer(seed=7, signals="scripted") as server:
        server.populate("me")
        monkeypatch.setenv("TRADE_BASE_URL", server.url)
        monkeypatch.setenv("TRADE_API_KEY", "mock_full_me")
        asyncio.run(asyncio.wait_for(play(server), 60))


def test_the_unit(tmp_path: Path) -> None:
    unit = shown("ini").text
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    read.read_string(unit)
    assert read.sections() == ["Unit", "Service", "Install"]
    assert read["Service"]["Restart"] == "on-failure", "a bot that was stopped is not started again"
    assert "KillSignal" not in read["Service"], "systemd sends SIGTERM"
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not here: the unit was only parsed")
    file = tmp_path / "bot.service"
    file.write_text(unit.replace("/opt/bot/.venv/bin/python", sys.executable).replace("User=bot\n", ""))
    done = subprocess.run([verify, "verify", "--man=no", str(file)], capture_output=True, text=True)
    about = [line for line in done.stderr.splitlines() if "bot.service" in line]
    assert about == [], "what it says of other units, or of a machine without systemd, is not about this one"


def test_the_image() -> None:
    lines = shown("dockerfile").lines
    assert len(lines) <= 20
    words = [line.split()[0] for line in lines]
    assert words[0] == "FROM"
    assert set(words) <= {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "CMD"}
    assert words.index("USER") < words.index("CMD")
    command = json.loads(lines[-1].removeprefix("CMD "))  # not by a shell, which would keep the signal to itself
    assert command == ["python", "bot.py"]


def test_the_timetable(home: Path) -> None:
    """Started three times as cron does it, paid once; and the budget of the month holds on the next day."""
    *settings, line = shown("crontab").lines
    folder, programs = str(home / "trade"), str(Path(sys.executable).parent)

    def here(text: str) -> str:
        return text.replace("/var/lib/bot", folder).replace("/opt/bot/.venv/bin", programs)

    env = dict(here(one).split("=", 1) for one in settings)
    assert env["TRADE_HOME"] == folder
    *times, command = line.split(maxsplit=5)
    assert all(re.fullmatch(r"[\d,*]+", one) for one in times)
    prepare_world(home)
    cron = {"PATH": "/usr/bin:/bin", "HOME": str(home), "SHELL": "/bin/sh", "LOGNAME": "bot", "TRADE_MOCK": "1"}

    def started(command: str) -> tuple[int, str]:
        (home / "trade" / "prices.log").unlink(missing_ok=True)
        done = subprocess.run(["/bin/sh", "-c", here(command).replace("\\%", "%")], cwd=home, env=cron | env)
        return done.returncode, (home / "trade" / "prices.log").read_text()

    budget = [f"{programs}/trade", "pay", "budget", "set", "--per-month", "0.06"]
    subprocess.run(budget, env=cron | env, check=True, capture_output=True)
    said = [started(command) for _ in times[1].split(",")]
    assert [code for code, _ in said] == [0, 0, 0], said
    (file,) = (home / "trade").glob("prices-*.json")
    assert {one["symbol"] for one in json.loads(file.read_text())} == {"ETH", "BRETT"}
    assert ["nothing was paid now" in log for _, log in said] == [False, True, True]
    code, log = started(command.replace("/prices", "/more-prices"))
    assert (code, "the budget of $0.06 per month leaves $0.00" in log) == (12, True), log


# A bot that ends cleanly


@pytest.fixture
def service() -> Iterator[MockServer]:
    with MockServer(seed=7, signals="scripted") as server:
        server.populate("me")
        yield server


def variables(server: MockServer, home: Path) -> dict[str, str]:
    """The environment of a bot."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TRADE_")}
    return clean | {"TRADE_API_KEY": "mock_full_me", "TRADE_BASE_URL": server.url, "TRADE_HOME": str(home)}


@contextlib.contextmanager
def running(*command: str | Path, env: dict[str, str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A bot that follows signals."""
    words = list(map(str, command))
    with subprocess.Popen(words, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bot:
        try:
            assert bot.stdout is not None
            assert bot.stdout.readline() == "following\n"
            yield bot
        finally:
            bot.kill()


def ended(bot: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    bot.send_signal(number)
    out, err = bot.communicate(timeout=60)
    return bot.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_bot_that_ends_cleanly(service: MockServer, tmp_path: Path, number: signal.Signals) -> None:
    bot, env = [sys.executable, "-W", "error", str(ROOT / "examples" / "bot.py")], variables(service, tmp_path)
    with running(*bot, env=env, cwd=tmp_path) as first:
        assert ended(first, number) == (0, "", ""), "while it waits for the first signal"
    with running(*bot, env=env, cwd=tmp_path) as second:
        seen = service.emit_signal()
        assert second.stdout is not None
        assert f" {seen.token_symbol} " in second.stdout.readline()
        assert ended(second, number) == (0, "", ""), "while it waits for the next one"
    missed = service.emit_signal()
    with running(*bot, env=env, cwd=tmp_path) as third:
        assert third.stdout is not None
        lines = [third.stdout.readline()]  # the last one may come again: the bot was perhaps still at work on it
        lines += [third.stdout.readline()] if f" {seen.token_symbol} " in lines[0] else []
        assert f" {missed.token_symbol} " in lines[-1], "it continues"
        assert ended(third, number) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_bot_that_ends_while_the_service_is_away(service: MockServer, tmp_path: Path, number: signal.Signals) -> None:
    env, program = variables(service, tmp_path), ROOT / "examples" / "bot.py"
    service.add_fault("drop", route="/v1/signals/stream", after=1, how="clean", nth=1)
    with running(sys.executable, program, env=env, cwd=tmp_path) as bot:
        service.add_fault("status", route="/v1/signals/stream", status=503)
        service.emit_signal()
        limit = time.monotonic() + 120
        while not any(entry.status == 503 for entry in service.journal()):
            assert time.monotonic() < limit
            time.sleep(0.05)
        code, _, err = ended(bot, number)  # while it waits to connect again, which the log says
        assert (code, "Traceback" in err) == (0, False), err


def test_a_bot_with_a_wrong_key_says_so_in_two_lines(service: MockServer, tmp_path: Path) -> None:
    env = variables(service, tmp_path) | {"TRADE_API_KEY": "nobody"}
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "bot.py"], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    problem, hint = done.stderr.splitlines()
    assert problem.startswith("401 unauthorized: ")
    assert hint.startswith("hint: check TRADE_API_KEY")


# Docker, without Docker


def test_the_image_by_its_steps(service: MockServer, tmp_path: Path) -> None:
    """In an empty folder: the commands, each instruction of the file, and its command, ended as Docker ends it."""
    bot, app = tmp_path / "bot", tmp_path / "app"
    bot.mkdir()
    app.mkdir()
    shutil.copy(ROOT / "examples" / "bot.py", bot)
    (build,) = [block for block in blocks(PAGE) if block.language == "bash" and "pip wheel" in block.text]
    # The build's own packages come from this environment, as there may be no index.
    wheel = build.text.replace("../tradesdk", str(ROOT)).replace("pip wheel", f"{sys.executable} -m pip wheel")
    subprocess.run(
        ["/bin/sh", "-ec", wheel.replace("--no-deps", "--no-deps --no-build-isolation")], cwd=bot, check=True
    )
    for line in shown("dockerfile").lines:
        word, _, rest = line.partition(" ")
        if word == "COPY":
            source, target = rest.split()
            found = bot / source
            copy = shutil.copytree if found.is_dir() else shutil.copy
            copy(found, app / (source if target == "." else target))
        elif rest.startswith("pip install"):
            assert rest == "pip install --no-cache-dir -r requirements.txt"
            install = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--target",
                "site",
                "-r",
                "requirements.txt",
            ]
            subprocess.run(install, cwd=app, check=True)
    command = json.loads(shown("dockerfile").lines[-1].removeprefix("CMD "))
    env = variables(service, tmp_path) | {"PYTHONPATH": str(app / "site")}
    where = [sys.executable, "-c", "import tradesdk; print(tradesdk.__file__)"]
    assert str(app) in subprocess.run(where, env=env, cwd=app, capture_output=True, text=True, check=True).stdout
    assert "STOPSIGNAL" not in shown("dockerfile").text, "docker stop sends SIGTERM"
    with running(sys.executable, *command[1:], env=env, cwd=app) as program:
        assert ended(program, signal.SIGTERM) == (0, "", "")


# Stop everything


def stop_everything(what: str, server: MockServer, folder: Path, code: int = 0) -> str:
    program = ROOT / "examples" / "stop_everything.py"
    env = variables(server, folder) | {"PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, program, what], env=env, cwd=folder, capture_output=True, encoding="utf-8")
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def least(server: MockServer) -> dict[str, float]:
    """The least confidence of each agent."""
    with TradeClient(api_key="mock_full_me", base_url=server.url) as client:
        return {one.name: client.agents.get(one.id).min_confidence for one in client.agents.list()}


def test_stop_everything_and_back(service: MockServer, tmp_path: Path) -> None:
    before = least(service)
    assert len(set(before.values()) - {1.0}) > 1
    refused = service.add_fault("status", method="PATCH", status=422, nth=2)
    assert "run it again" in stop_everything("stop", service, tmp_path, code=1)
    service.remove_fault(refused.id)
    assert set(least(service).values()) != {1.0}
    stop_everything("stop", service, tmp_path)
    assert set(least(service).values()) == {1.0}
    stop_everything("stop", service, tmp_path)  # what was there at first is kept
    with TradeClient(api_key="mock_full_me", base_url=service.url) as client:
        changed, deleted = [one for one in client.agents.list() if one.status == "idle"][:2]
        client.agents.update(changed.id, min_confidence=0.5)
        client.agents.delete(deleted.id)
    told = stop_everything("back", service, tmp_path)
    assert f"{changed.name}: left at 0.5, which somebody has set; it was {before[changed.name]:g}" in told
    assert f"{deleted.id}: deleted meanwhile" in told
    after = {name: value for name, value in before.items() if name != deleted.name} | {changed.name: 0.5}
    assert least(service) == after
    assert list(tmp_path.glob("stopped*")) == []
    assert "stopped.json is missing" in stop_everything("back", service, tmp_path, code=1)


def test_agents_of_the_mock_open_nothing_while_everything_is_stopped(tmp_path: Path) -> None:
    """What the page says it relies on; the mock's agents do it so."""
    with MockServer(seed=7, clock=MockClock(SHOWN_AT)) as server:
        stocked(server, SHOWN_AT, "me")
        stop_everything("stop", server, tmp_path)
        with TradeClient(api_key="mock_full_me", base_url=server.url) as client:
            opened = [trade.id for trade in client.trades.list()]
            server.clock.advance(6 * 3600)
            sure = [one for one in client.signals.history(chain=8453, since=SHOWN_AT) if one.confidence == 1]
            assert sure == [], "or they would be taken"
            assert [trade.id for trade in client.trades.list()] == opened
            stop_everything("back", server, tmp_path)
            server.clock.advance(6 * 3600)
            assert len(client.trades.list().to_list()) > len(opened)


# A spreadsheet


def test_no_symbol_becomes_a_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="only the recipe needs it")
    (code,) = [block for block in blocks(PAGE) if block.language == "python" and "to_excel" in block.text]
    moment = 1_795_200_000
    trades = [
        {
            "id": f"trd_{number}",
            "agent_id": "agt_1",
            "token_address": "0x" + "1" * 40,
            "token_symbol": symbol,
            "chain_id": 8453,
            "direction": "BUY",
            "entry_price_usd": 1.0,
            "exit_price_usd": 2.0,
            "pnl_usd": 1.5,
            "roi_pct": 100.0,
            "status": "closed",
            "opened_at": moment,
            "closed_at": moment + number,
        }
        for number, symbol in enumerate(['=HYPERLINK("https://evil.example")', "@SUM(1)", "ETH"])
    ]
    with scripted() as server:
        server.says(200, {"data": trades, "next_cursor": None})
        monkeypatch.setenv("TRADE_API_KEY", "k")
        monkeypatch.setenv("TRADE_BASE_URL", server.url)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        namespace: dict[str, Any] = {}
        exec(code.text, namespace)  # noqa: S102 - the code is this repository's own
    book = openpyxl.load_workbook(namespace["file"])
    assert book.sheetnames == ["Trades", "By token"]
    cells = [cell for sheet in book for row in sheet for cell in row]
    assert [cell.value for cell in cells if cell.data_type == "f"] == []
    heads = [cell.value for cell in next(iter(book["Trades"]))]
    closed = [row[heads.index("closed_at (UTC)")].value for row in list(book["Trades"])[1:]]
    assert closed == [datetime.fromtimestamp(moment + number, UTC).replace(tzinfo=None) for number in range(3)]
