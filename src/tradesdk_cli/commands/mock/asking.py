"""How the commands of `trade mock` speak to the mock, and how they read NAME=VALUE."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tradesdk_cli.errors import RefusedByMock, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tradesdk_cli.session import Session

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
    body: dict[str, Any] | None = None,
    *,
    gives: Shape | None = None,
    each: Shape | None = None,
    look: str | None = None,
    when: tuple[int, ...] = (400, 404),
) -> dict[str, Any]:
    """What `/_mock/{path}` of the mock that `run` is about answers.

    `gives` is what stands in the answer of a mock, at least, and `each` what in every item of its `data`.
    `look` is the command, without `trade`, that shows what would have been accepted, for refusals of status `when`.

    Raises:
        ConfigProblem: the URL is not of this machine.
        ControlProblem: nothing answers there, or it is no mock server.
        RefusedByMock: it refused.
    """
    from tradesdk_cli.commands.mock.control import ControlProblem, control

    mock = run.mock if run.settings.mock else served_at(run)
    try:
        answer = control(mock, method, path, body, program=run.settings.program)
    except RefusedByMock as error:
        if look is not None and error.status in when:
            error.hint = f"see what there is: {run.settings.program} {look}"
        raise
    if not (_fits(answer, gives or {}) and (each is None or all(_fits(item, each) for item in answer["data"]))):
        raise ControlProblem(f"what answers at {_host(run)} is no mock server", "start one: trade mock serve")
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
