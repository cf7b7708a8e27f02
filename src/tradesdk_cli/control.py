"""Speaks to a mock server's control routes. They answer on this machine only, so nothing else is asked."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from tradesdk_cli.config import is_loopback
from tradesdk_cli.errors import CliError, ConfigProblem, RefusedByMock
from tradesdk_cli.text import one_line

_TIMEOUT = 10.0


class ControlProblem(CliError):
    """There is no mock server."""

    code = "mock"


def control(
    base_url: str, method: str, path: str, body: dict[str, Any] | None = None, *, program: str = "trade"
) -> dict[str, Any]:
    """What `/_mock/{path}` answers. Hints begin with `program`.

    Raises:
        ConfigProblem: the URL is not of this machine.
        ControlProblem: nothing answers there, or it is no mock server.
        RefusedByMock: it refused.
    """
    host, port = _place(base_url)
    where = f"{host}:{port}"
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, f"/_mock/{path}", payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read(4 * 1024 * 1024)
    except (OSError, http.client.HTTPException) as error:
        raise ControlProblem(f"no mock server answers at {where}: {error}", "start one: trade mock serve") from None
    finally:
        connection.close()
    try:
        answer = json.loads(content) if content else {}
    except ValueError:
        answer = None
    good = 200 <= response.status < 300
    refusal = None if good or not isinstance(answer, dict) else answer.get("error")
    if isinstance(refusal, dict):
        code, message = str(refusal.get("code") or "mock"), str(refusal.get("message") or "no reason given")
        raise RefusedByMock(
            response.status, code, f"the mock refused: {message}", _hint(path, response.status, program)
        )
    if not good or not isinstance(answer, dict):
        raise ControlProblem(f"what answers at {where} is no mock server", "start one: trade mock serve")
    return answer


def _place(base_url: str) -> tuple[str, int]:
    host = ""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port or 80
        if parts.scheme == "http" and is_loopback(host):
            return host, port
    except ValueError:
        pass
    # Of the URL only the host is shown: a password may stand in it by mistake.
    raise ConfigProblem(
        f"the base URL ({one_line(host, 120) or 'without a host'}) is not of a mock server on this machine",
        "trade mock serve starts one; --mock uses the embedded one",
    )


def _hint(path: str, status: int, program: str) -> str:
    if path.startswith("agents/") and status in (404, 409):
        return f"see what there is: {program} agents list"
    if status in (400, 422):
        return "nothing was changed; correct the value and run it again (--help shows what is accepted)"
    return f"see what there is: {program} mock status"
