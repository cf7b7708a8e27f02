"""Requests to the control routes of a mock: a served one on this machine, or the embedded one."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any

from tradesdk.local import host_of, origin_of
from tradesdk_cli.config.settings import is_loopback
from tradesdk_cli.diagnostics import log_control
from tradesdk_cli.errors import CliError, ConfigProblem, RefusedByMock, exit_code_for
from tradesdk_cli.run import Run

PORT = 8787
_START = "start one: trade mock serve"
_STATE, _JSON = "application/vnd.sqlite3", "application/json"


def send(run: Run, method: str, path: str, body: dict[str, Any] | bytes | None = None) -> dict[str, Any]:
    """The response of `/_mock/{path}` on this run's mock. `body` is sent as JSON, or is a state file."""
    answer = _parsed(fetch(run, method, path, body))
    if not isinstance(answer, dict):
        raise no_mock(run)
    return answer


def fetch(run: Run, method: str, path: str, body: dict[str, Any] | bytes | None = None) -> bytes:
    """The body of a successful response. Raises as `send` does."""
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    sent, received = _STATE if isinstance(body, bytes) else _JSON, _STATE if path == "snapshot" else _JSON
    # Without a password, which may be in the address by mistake.
    url = f"{run.mock.url if run.settings.mock else f'http://{host_of(_served_at(run))}'}/_mock/{path}"
    log_control("request", method, url, content, sent)
    began = time.monotonic()
    if run.settings.mock:
        status, answered = run.mock.control_response(method, path, content or b"")
    else:
        # A large state takes long: it is read and checked as a whole.
        timeout = run.settings.timeout or (120.0 if _STATE in (sent, received) else 10.0)
        status, answered = _over_http(run, method, path, content, sent, timeout)
    good, took = 200 <= status < 300, time.monotonic() - began
    log_control("answer", method, url, answered, received if good else _JSON, status=status, seconds=took)
    if good:
        return answered
    answer = _parsed(answered)
    refusal = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(refusal, dict):
        raise no_mock(run)
    code, message = str(refusal.get("code") or "mock"), str(refusal.get("message") or "no reason given")
    hint = f"see what there is: {run.settings.program} mock status"
    if status in (400, 422):
        hint = "nothing was changed; correct the value and run it again (--help shows what is accepted)"
    raise RefusedByMock(f"the mock refused: {message}", hint, code=code, exit_code=exit_code_for(status), status=status)


def _over_http(run: Run, method: str, path: str, content: bytes | None, kind: str, timeout: float) -> tuple[int, bytes]:
    base_url = _served_at(run)
    where, parts = host_of(base_url), origin_of(base_url)
    if not (base_url.startswith("http://") and isinstance(parts, tuple) and is_loopback(parts[0])):
        raise ConfigProblem(
            f"the base URL ({where}) is not of a mock server on this machine",
            "trade mock serve starts one; --mock uses the embedded one",
        )
    connection = http.client.HTTPConnection(*parts, timeout=timeout)
    try:
        connection.request(method, f"/_mock/{path}", content, {"Content-Type": kind})
        response = connection.getresponse()
        if response.getheader("x-mock-control") is None:
            raise no_mock(run)
        return response.status, response.read()
    except TimeoutError:
        unknown = "" if method == "GET" else "; whether this was done is unknown"
        raise CliError(
            f"the mock at {where} did not answer within {timeout:g} s; it may be catching up with its clock{unknown}",
            f"{run.settings.program} mock status",
            code="mock",
        ) from None
    except ConnectionRefusedError:
        raise CliError(f"nothing listens at http://{where}", _START, code="mock") from None
    except (OSError, http.client.HTTPException) as error:
        raise CliError(f"no mock server answers at {where}: {error}", _START, code="mock") from None
    finally:
        connection.close()


def no_mock(run: Run) -> CliError:
    """The error for a response that is not from a mock."""
    return CliError(f"the server at {host_of(_served_at(run))} is not a mock server", _START, code="mock")


def _parsed(content: bytes) -> Any:
    try:
        return json_of(content or b"{}")
    except (ValueError, RecursionError):
        return None


def json_of(text: str | bytes) -> Any:
    """The value of JSON text. Raises ValueError or RecursionError for anything else, and for NaN and infinity."""
    found = json.loads(text)
    json.dumps(found, allow_nan=False)  # refuses what Python accepts beyond JSON
    return found


def _served_at(run: Run) -> str:
    return run.settings.base_url or f"http://127.0.0.1:{PORT}"


def mock_name(run: Run) -> str:
    """The mock's name for people."""
    if run.settings.mock:
        return f"the embedded mock (world {run.settings.world})"
    return f"the mock at {host_of(_served_at(run))}"


def forget_old_state(run: Run) -> None:
    """Deletes local data about the mock's old state after that was replaced."""
    from tradesdk_cli import idcache

    idcache.clear(run.settings)
    if run.settings.mock:
        from tradesdk_cli.mockworld import MOCK_TENANT, forget_payments

        forget_payments(run.settings)
        run.mock.populate(MOCK_TENANT)  # as every command on this world does
