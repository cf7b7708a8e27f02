"""Speaks to a mock server's control routes. They answer on this machine only, so nothing else is asked."""

from __future__ import annotations

import http.client
import ipaddress
import json
from typing import Any
from urllib.parse import urlsplit

from tradesdk_cli.errors import CliError, ConfigProblem
from tradesdk_cli.text import one_line

_TIMEOUT = 10.0


class ControlProblem(CliError):
    """The mock server refused, or there is none."""

    code = "mock"


def control(base_url: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What `/_mock/{path}` answers.

    Raises:
        ConfigProblem: the URL is not of this machine.
        ControlProblem: nothing answers there, it is no mock server, or it refused.
    """
    parts = urlsplit(base_url)
    if not _loopback(parts.hostname or "") or parts.scheme != "http":
        raise ConfigProblem(
            f"{one_line(base_url, 120)} is not a mock server on this machine",
            "trade mock serve starts one; --mock uses the embedded one",
        )
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_TIMEOUT)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, f"/_mock/{path}", payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read(4 * 1024 * 1024)
    except (OSError, http.client.HTTPException) as error:
        raise ControlProblem(f"no mock server answers at {base_url}: {error}", "start one: trade mock serve") from None
    finally:
        connection.close()
    try:
        answer = json.loads(content) if content else {}
    except ValueError:
        answer = None
    if not 200 <= response.status < 300:
        raise ControlProblem(_refusal(response.status, answer), "see what there is: trade mock status")
    if not isinstance(answer, dict):
        raise ControlProblem(f"what answers at {base_url} is no mock server", "start one: trade mock serve")
    return answer


def _refusal(status: int, answer: object) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return f"the mock server refused ({status})" + (f": {one_line(str(message))}" if message else "")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
