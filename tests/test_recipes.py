"""What the page of recipes shows and tests/test_docs.py cannot run: services, units, images and timetables."""

from __future__ import annotations

import asyncio
import configparser
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from tradesdk_mock import MockServer

from ._pages import ROOT, Block, blocks
from .test_docs import home, on_terminal, prepare_world

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
    assert (read["Service"]["KillSignal"], read["Service"]["Restart"]) == ("SIGINT", "always")
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
    assert set(words) <= {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "STOPSIGNAL", "CMD"}
    assert words.index("USER") < words.index("CMD")
    command = json.loads(lines[-1].removeprefix("CMD "))  # not by a shell, which would keep the signal to itself
    assert command == ["python", "bot.py"]


def test_the_timetable(home: Path) -> None:
    """Started three times, paid once."""
    *settings, line = shown("crontab").lines
    assert all(re.fullmatch(r"[A-Z_]+=\S+", one) for one in settings)
    times, command = (
        line.split(maxsplit=5)[:5],
        line.split(maxsplit=5)[5].replace("\\%", "%").replace("/opt/bot/.venv/bin/", ""),
    )
    assert all(re.fullmatch(r"[\d,*]+", one) for one in times)
    prepare_world(home)
    said = []
    for _ in times[1].split(","):
        code, seen = on_terminal(command, home, "docs/recipes.md")
        assert code == 0, seen
        said.append(seen)
    (file,) = home.glob("prices-*.json")
    assert {one["symbol"] for one in json.loads(file.read_text())} == {"ETH", "BRETT"}
    assert ["nothing was paid now" in seen for seen in said] == [False, True, True]
