"""Speaks to the control routes of a mock: one that is served, on this machine only, or the one in this process."""

from __future__ import annotations

import http.client
import json
import math
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tradesdk_cli.config.settings import is_loopback
from tradesdk_cli.diagnostics import control_was_asked
from tradesdk_cli.errors import CliError, ConfigProblem, RefusedByMock
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk_cli.mockworld import EmbeddedMock

_TIMEOUT = 10.0


class ControlProblem(CliError):
    """There is no mock server, or it doesn't answer in time."""

    code = "mock"


def control(
    mock: str | EmbeddedMock, method: str, path: str, body: dict[str, Any] | None = None, *, program: str = "trade"
) -> dict[str, Any]:
    """What `/_mock/{path}` answers. `mock` is a base URL, or the mock in this process; hints begin with `program`.

    Raises:
        ConfigProblem: the URL is not of this machine.
        ControlProblem: nothing answers there, or not in time, or it is no mock server.
        RefusedByMock: it refused.
    """
    content = None if body is None else json.dumps(body).encode()
    began = time.monotonic()
    if isinstance(mock, str):
        where, status, answered = _over_http(mock, method, path, content, program)
    else:
        where, (status, answered) = str(mock.file), mock.ask(method, path, content)
    base = mock if isinstance(mock, str) else mock.url
    control_was_asked(method, f"{base}/_mock/{path}", content, status, answered, time.monotonic() - began)
    try:
        answer = (
            json.loads(answered, parse_float=_finite, parse_int=_bounded, parse_constant=_finite) if answered else {}
        )
    except (ValueError, RecursionError):
        answer = None
    good = 200 <= status < 300
    refusal = None if good or not isinstance(answer, dict) else answer.get("error")
    if isinstance(refusal, dict):
        code, message = str(refusal.get("code") or "mock"), str(refusal.get("message") or "no reason given")
        raise RefusedByMock(status, code, f"the mock refused: {message}", _hint(path, status, program))
    if not good or not isinstance(answer, dict):
        raise ControlProblem(f"what answers at {where} is no mock server", "start one: trade mock serve")
    return answer


def _over_http(base_url: str, method: str, path: str, content: bytes | None, program: str) -> tuple[str, int, bytes]:
    """Where it is, and the status and body of its answer."""
    host, port = _place(base_url)
    where = f"{host}:{port}"
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request(method, f"/_mock/{path}", content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return where, response.status, response.read(4 * 1024 * 1024)
    except TimeoutError:
        unknown = "" if method == "GET" else "; whether this was done is unknown"
        raise ControlProblem(
            f"the mock at {where} did not answer within {_TIMEOUT:g} s; it may be catching up with its clock{unknown}",
            f"{program} mock clock",
        ) from None
    except ConnectionRefusedError:
        raise ControlProblem(f"nothing listens at http://{where}", "start one: trade mock serve") from None
    except (OSError, http.client.HTTPException) as error:
        raise ControlProblem(f"no mock server answers at {where}: {error}", "start one: trade mock serve") from None
    finally:
        connection.close()


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _bounded(text: str) -> int:
    # Longer ones are neither counts nor times.
    if len(text) > 20:
        raise ValueError(text)
    return int(text)


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
