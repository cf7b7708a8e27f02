"""Speaks to the control routes of a mock: one that is served, on this machine only, or the one in this process."""

from __future__ import annotations

import http.client
import json
import math
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tradesdk_cli.config.settings import is_loopback
from tradesdk_cli.diagnostics import control_was_asked
from tradesdk_cli.errors import CliError, ConfigProblem, RefusedByMock, UsageProblem
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tradesdk_cli.mockworld import EmbeddedMock
    from tradesdk_cli.session import Session


STATE = "application/vnd.sqlite3"
_START = "start one: trade mock serve"
_JSON = "application/json"
_TIMEOUT, _TIMEOUT_OF_STATES = 10.0, 120.0  # a large state takes its time: it is read and checked as a whole
_LONGEST_ANSWER = 4 * 1024 * 1024


class ControlProblem(CliError):
    """There is no mock server, or it doesn't answer in time."""

    code = "mock"


def control(
    mock: str | EmbeddedMock,
    method: str,
    path: str,
    body: dict[str, Any] | bytes | None = None,
    *,
    program: str = "trade",
) -> dict[str, Any]:
    """What `/_mock/{path}` answers. `mock` is a base URL, or the mock in this process; hints begin with `program`.

    `body` is sent as JSON, or is a state file.

    Raises:
        ConfigProblem: the URL is not of this machine.
        ControlProblem: nothing answers there, or not in time, or it is not a mock server.
        RefusedByMock: it refused.
    """
    where, answered = _exchange(mock, method, path, body, program)
    answer = _json(answered) if answered else {}
    if not isinstance(answer, dict):
        raise _no_mock(where)
    return answer


def state_of(run: Session) -> bytes:
    """The state of a mock that is served, as a file of SQLite. Raises as `control` does."""
    where, answered = _exchange(served_at(run), "GET", "snapshot", None, run.settings.program)
    if not answered.startswith(b"SQLite format 3\0"):
        raise _no_mock(where)
    return answered


def _exchange(
    mock: str | EmbeddedMock, method: str, path: str, body: dict[str, Any] | bytes | None, program: str
) -> tuple[str, bytes]:
    """Where the mock is, and the body of an answer that is no refusal."""
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    sent, received = STATE if isinstance(body, bytes) else _JSON, STATE if path == "snapshot" else _JSON
    began = time.monotonic()
    if isinstance(mock, str):
        where, status, answered = _over_http(mock, method, path, content, sent, STATE in (sent, received), program)
    else:
        where, (status, answered) = str(mock.file), mock.ask(method, path, content)
    base = mock if isinstance(mock, str) else mock.service.url
    good = 200 <= status < 300
    took = time.monotonic() - began
    kinds = (sent, received if good else _JSON)
    control_was_asked(method, f"{base}/_mock/{path}", content, status, answered, took, kinds)
    if good:
        return where, answered
    answer = _json(answered)
    refusal = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(refusal, dict):
        raise _no_mock(where)
    code, message = str(refusal.get("code") or "mock"), str(refusal.get("message") or "no reason given")
    raise RefusedByMock(status, code, f"the mock refused: {message}", _hint(path, status, program))


def _over_http(
    base_url: str, method: str, path: str, content: bytes | None, kind: str, large: bool, program: str
) -> tuple[str, int, bytes]:
    """Where it is, and the status and body of its answer."""
    host, port = _place(base_url)
    where = f"{host}:{port}"
    timeout = _TIMEOUT_OF_STATES if large else _TIMEOUT
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request(method, f"/_mock/{path}", content, {"Content-Type": kind})
        response = connection.getresponse()
        return where, response.status, response.read(None if large else _LONGEST_ANSWER)
    except TimeoutError:
        unknown = "" if method == "GET" else "; whether this was done is unknown"
        raise ControlProblem(
            f"the mock at {where} did not answer within {timeout:g} s; it may be catching up with its clock{unknown}",
            f"{program} mock clock",
        ) from None
    except ConnectionRefusedError:
        raise ControlProblem(f"nothing listens at http://{where}", _START) from None
    except (OSError, http.client.HTTPException) as error:
        raise ControlProblem(f"no mock server answers at {where}: {error}", _START) from None
    finally:
        connection.close()


def _no_mock(where: str) -> ControlProblem:
    return ControlProblem(f"the server at {where} is not a mock server", _START)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content, parse_float=_finite, parse_int=_bounded, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None


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


Shape = Mapping[str, type | tuple[type, ...]]
"""Names of fields, and the JSON types that they have."""
NUMBER = (int, float)
OPTIONAL_TEXT = (str, type(None))
OPTIONAL_NUMBER = (int, float, type(None))
CLOCK: Shape = {"now": NUMBER, "service_now": NUMBER, "frozen": bool, "speed": NUMBER}

PORT = 8787
SERVED = f"http://127.0.0.1:{PORT}"


def ask(
    run: Session,
    method: str,
    path: str,
    body: dict[str, Any] | bytes | None = None,
    *,
    gives: Shape | None = None,
    each: Shape | None = None,
    look: str | None = None,
    when: tuple[int, ...] = (400, 404),
) -> dict[str, Any]:
    """What `/_mock/{path}` of the mock that `run` is about answers.

    `gives` is what the answer of a mock has, at least, and `each` what every item of its `data` has.
    `look` is the command, without `trade`, that shows what would have been accepted, for refusals of status `when`.

    Raises:
        ConfigProblem: the URL is not of this machine.
        ControlProblem: nothing answers there, or it is not a mock server.
        RefusedByMock: it refused.
    """

    mock = run.mock if run.settings.mock else served_at(run)
    try:
        answer = control(mock, method, path, body, program=run.settings.program)
    except RefusedByMock as error:
        if look is not None and error.status in when:
            error.hint = f"see what there is: {run.settings.program} {look}"
        raise
    if not (_fits(answer, gives or {}) and (each is None or all(_fits(item, each) for item in answer["data"]))):
        raise _no_mock(_host(run))
    return answer


def rows(
    run: Session,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    each: Shape,
    look: str | None = None,
) -> list[dict[str, Any]]:
    """The same for what answers with a list."""
    found: list[dict[str, Any]] = ask(run, method, path, body, gives={"data": list}, each=each, look=look)["data"]
    return found


def _fits(answer: object, shape: Shape) -> bool:
    return isinstance(answer, dict) and all(
        name in answer and isinstance(answer[name], kind) for name, kind in shape.items()
    )


def served_at(run: Session) -> str:
    """The address of a mock that is served."""
    return run.settings.base_url or os.environ.get("TRADE_BASE_URL") or SERVED


def place(run: Session) -> str:
    """Which mock it is, for people."""
    return f"the embedded mock (world {run.settings.world})" if run.settings.mock else f"the mock at {_host(run)}"


def _host(run: Session) -> str:
    from urllib.parse import urlsplit

    # Only the host: a password may stand in a URL by mistake.
    try:
        return urlsplit(served_at(run)).netloc.rpartition("@")[2]
    except ValueError:
        return "an unusable address"


def word(text: str) -> str:
    """An id or a name as one part of a path."""
    return quote(text, safe="")


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def pairs(words: Iterable[str], look: str) -> dict[str, str]:
    """`NAME=VALUE` words as a dictionary.

    Raises:
        UsageProblem: a word without `=`, or a name that comes twice.
    """
    found: dict[str, str] = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageProblem(f"{text!r} is not of the form NAME=VALUE", look)
        if name in found:
            raise UsageProblem(f"{name} is given twice", look)
        found[name] = value
    return found
