"""The control API `/_mock/*`: the operations of `MockService` over HTTP. For programs on this machine only.

The arguments of a request follow from the signature of its operation; `OPERATIONS` has all of them.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from ..api.validation import MAX_BODY, Query, json_body
from ..core.clock import MockClock
from ..core.errors import ApiError, MockServerError, crashed, forbidden, invalid, no_route, wrong_method
from ..core.gap_options import GapOptions
from ..core.messages import Request, Response, error_response
from ..core.router import Router
from ..payments import accounts, settlements
from ..payments.report import PAGE, MockPayments
from .description import documented
from .operations import Operations

MAX_STATE = 1024 * 1024 * 1024
STATE = "application/vnd.sqlite3"
MARK = (b"x-mock-control", b"1")
"""A header of every response, which other servers don't send."""
_WORDS: dict[type, str] = {
    bool: "true or false",
    float: "a number",
    int: "an integer",
    list: "a list",
    dict: "an object",
    str: "text",
}
_JSON: dict[object, type] = {**{each: each for each in _WORDS}, Literal: str, Mapping: dict, Sequence: list}
"""The JSON type of each Python type."""

Given = dict[str, Any]
"""The arguments of a call, by name."""


@dataclass(frozen=True, slots=True)
class ControlParameter:
    """A field of a request to the control API, or a word of its path.

    Attributes:
        name: its name.
        types: its types in JSON: of `str`, `int`, `float`, `bool`, `list` and `dict`.
        choices: its only values; empty when there are others.
        required: whether a request must have it.
        default: its value when a request does not have it.
        unit: its unit: `TIME` in Unix seconds, `SECONDS`, `USD` in micro-dollars, `KEY_ID` and so on, or empty.
        text: its description.
    """

    name: str
    types: tuple[type, ...]
    choices: tuple[str, ...]
    required: bool
    default: Any = None
    unit: str = ""
    text: str = ""


@cache
def signature(function: Callable[..., object]) -> tuple[dict[str, ControlParameter], bool]:
    """The arguments of a function after its first one, and whether it takes any others too."""
    import inspect

    found, others = dict[str, ControlParameter](), False
    for each in list(inspect.signature(function).parameters.values())[1:]:
        if each.kind is each.VAR_KEYWORD:
            others = True
            continue
        # Not typing.get_type_hints: that reads the result's type too, whose module isn't loaded.
        annotation = eval(each.annotation, function.__globals__)  # noqa: S307 - from our source
        union = get_origin(annotation) in (Union, UnionType)
        members = [one for one in (get_args(annotation) if union else (annotation,)) if one is not type(None)]
        unit = ""
        if get_origin(members[0]) is Annotated:
            members[0], unit = get_args(members[0])
        types = [_JSON.get(get_origin(one) or one) for one in members]
        known = tuple(dict.fromkeys(one for one in types if one is not None)) if all(types) else ()
        choices = tuple(word for one in members if get_origin(one) is Literal for word in get_args(one))
        required = each.default is each.empty
        default = None if required else each.default
        found[each.name] = ControlParameter(each.name, known, choices, required, default, unit)
    return found, others


@dataclass(frozen=True, slots=True)
class ControlOperation:
    """An operation of the control API.

    Attributes:
        method: of the request.
        path: after `/_mock/`, such as `keys/{key_id}/revoke`.
        function: called with the service, its clock or its payments, and with the arguments in its signature.
        response: makes the response from service, result and arguments; without it, the result is the response. A list,
            or None for an empty one, becomes `{"data": [...]}`.
        raw: the function takes and returns bytes, and makes its own transactions.
    """

    method: str
    path: str
    function: Callable[..., object]
    response: Callable[[Operations, Any, Given], object] | None = None
    raw: bool = False

    @property
    def text(self) -> str:
        """What it does: a sentence, and more after an empty line."""
        return documented(self.function)[0]

    @property
    def parameters(self) -> tuple[ControlParameter, ...]:
        """Words of the path, then fields: of the query for GET and DELETE, else of a JSON body."""
        texts = documented(self.function)[1]
        return tuple(replace(each, text=texts.get(name, "")) for name, each in signature(self.function)[0].items())

    @property
    def more(self) -> str | None:
        """What any other fields of the body are; None when there may be none."""
        arguments, takes_others = signature(self.function)
        others = (text for name, text in documented(self.function)[1].items() if name not in arguments)
        return next(others, "") if takes_others else None


class ControlApi:
    """Handles requests to the control API of a service.

    Args:
        allow_remote: also accept requests from other machines.
    """

    def __init__(self, mock: Operations, *, allow_remote: bool = False) -> None:
        self._mock = mock
        self._allow_remote = allow_remote
        by_path: dict[str, dict[str, ControlOperation]] = {}
        for each in OPERATIONS:
            by_path.setdefault(f"/_mock/{each.path}", {})[each.method] = each
        self._router = Router(by_path)

    def longest_body(self, path: str, client: str | None) -> int:
        """The most bytes of a request that are read: far more for a state file from this machine."""
        return MAX_STATE if path == "/_mock/restore" and _is_loopback(client) else MAX_BODY

    def respond(self, request: Request) -> Response:
        """The response to a request. Never raises."""
        try:
            found = self._act(request)
            response = found if isinstance(found, Response) else Response(200, found)
        except ApiError as error:
            response = error_response(error, self._mock.gaps)
        except Exception:
            response = error_response(crashed(f"{request.method} {request.path!r}"), self._mock.gaps)
        response.headers.append(MARK)
        return response

    def _act(self, request: Request) -> object:
        check_local(request, remote=self._allow_remote)
        operations, params = self._router.find(request.path) or ({}, {})
        operation = operations.get(request.method)
        if operation is None:
            if operations:
                raise wrong_method(request.method, sorted(operations))
            # The id may be a key's value by mistake: it is never shown.
            raise no_route("/_mock/keys/..." if request.path.startswith("/_mock/keys/") else request.path)
        mock = self._mock
        try:
            if operation.raw:
                return operation.function(mock, request.content)
            # One transaction, so that other processes on the same file see all of it or nothing.
            with mock.world.transaction():
                given, others = _given(operation, request, params, mock.gaps)
                return _call(mock, operation, given, others)
        except MockServerError as error:
            raise error.api_error or invalid(_as_json_says_it(error)) from None
        except ValueError as error:
            raise invalid(_as_json_says_it(error)) from None


def _given(operation: ControlOperation, request: Request, params: Given, gaps: GapOptions) -> tuple[Given, Given]:
    """The arguments of a request, and those beyond the signature. ApiError for an invalid one."""
    arguments, takes_others = signature(operation.function)
    fields = {name: each for name, each in arguments.items() if name not in params}
    given, others = dict(params), Given()
    if request.method not in ("POST", "PUT"):
        if fields:
            query = Query(request.query, gaps)
            query.only(*fields)
            read: dict[tuple[type, ...], Callable[[str], object]] = {(int,): query.integer, (float,): query.number}
            found = {name: read.get(each.types, query.text)(name) for name, each in fields.items()}
            given |= {name: value for name, value in found.items() if value is not None}
        return given, others
    # An operation without arguments needs no body.
    body = {} if request.content == b"" else json_body(request.headers, request.content)
    for name in sorted(body.keys() - fields.keys()):
        if not takes_others:
            there = f"it has: {', '.join(fields)}" if fields else "it has none"
            raise invalid(f"{name[:80]}: not a field of this request; {there}")
        others[name] = body[name]
    for name, each in fields.items():
        # Null is the same as a missing field.
        if body.get(name) is not None:
            given[name] = _checked(each, body[name])
        elif each.required:
            raise invalid(f"{name}: required")
    return given, others


def _checked(each: ControlParameter, value: Any) -> Any:
    """`value`; ApiError for a wrong type."""
    allowed = (*each.types, int) if float in each.types else each.types
    if allowed and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
        raise invalid(f"{each.name}: must be {' or '.join(_WORDS[one] for one in each.types)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise invalid(f"{each.name}: must be finite")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise invalid(f"{each.name}: must be an integer of at most 64 bits")
    return value


def _call(mock: Operations, operation: ControlOperation, given: Given, others: Given) -> object:
    owner = operation.function.__qualname__.partition(".")[0]
    part = mock.clock if owner == "MockClock" else mock.payments if owner == "MockPayments" else mock
    result = operation.function(part, **given, **others)
    found = plain(result if operation.response is None else operation.response(mock, result, given))
    return found if isinstance(found, dict) else {"data": found or []}


def plain(value: Any) -> Any:
    """Dataclasses converted for JSON."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _as_json_says_it(error: Exception) -> str:
    """A message for callers in Python, in the words of callers over HTTP."""
    return re.sub(r"\b(\w+)=True\b", r'"\1": true', str(error))


def check_local(request: Request, *, remote: bool = False) -> None:
    """403 unless the request is from a program on this machine, and not from a web page in a browser.

    The peer's address excludes other machines; the Host header, pages whose name resolves to this machine; the Origin
    header, pages that send a form here. With `remote`, other machines are allowed, but still no web pages.
    """
    if not remote and not _is_loopback(request.client):
        raise forbidden("The control API accepts requests from this machine only.")
    for name, value in request.headers:
        if name == b"origin" or (name == b"host" and not remote):
            text = value.decode("latin-1")
            try:
                host = urlsplit(text if name == b"origin" else f"//{text}").hostname
            except ValueError:
                host = None
            if not _is_loopback(host):
                raise forbidden(f"The control API refuses requests with {name.decode().title()} {text[:80]!r}.")


def _is_loopback(host: str | None) -> bool:
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        where = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = where.ipv4_mapped if isinstance(where, ipaddress.IPv6Address) else None
    return (mapped or where).is_loopback


# Where the HTTP form differs from the method.


def _then(read: Callable[[Operations], object]) -> Callable[[Operations, object, Given], object]:
    """A response that shows the state after the change."""
    return lambda mock, _, __: read(mock)


def _snapshot(mock: Operations, _: bytes | None) -> Response:
    return Response(200).with_body(mock.snapshot(), STATE.encode())


def _restore(mock: Operations, content: bytes | None) -> object:
    if content is None:
        raise invalid("The body is longer than a state file may be.")
    mock.restore(content)
    return mock.status()


def _key(mock: Operations, _: object, given: Given) -> object:
    return next(key for key in mock.list_keys() if key["id"] == given["key_id"])


def _plan(mock: Operations, _: object, given: Given) -> object:
    row = mock.world.store.all("SELECT plan, next_plan, reset_at FROM tenants WHERE name = ?", (given["tenant"],))[0]
    return {"tenant": given["tenant"], "plan": row[0], "next_plan": row[1], "reset_at": row[2]}


def _agent(mock: Operations, _: object, given: Given) -> object:
    status = mock.world.store.value("SELECT status FROM agents WHERE id = ?", (given["agent_id"],))
    return {"id": given["agent_id"], "status": status}


def _journal(mock: Operations, found: object, _: object) -> object:
    return {"data": plain(found), "last": mock.world.journal.last}


def _clock(mock: Operations) -> object:
    """Show the clock."""
    clock = mock.clock
    # The service's own time differs under the gap option `clock_skew`.
    return {"now": clock.now(), "service_now": mock.world.now(), "frozen": clock.frozen, "speed": clock.speed}


def _gaps(mock: Operations) -> list[dict[str, Any]]:
    """List the gaps in the service's specification and the mock's choices."""
    now = mock.gaps.as_dict()
    return [{"name": each.name, "value": now[each.name], **asdict(each)} for each in GapOptions.describe()]


def _changed_gaps(mock: Operations, _: object, __: object) -> object:
    return [each for each in _gaps(mock) if str(each["value"]) != each["default"]]


def _settlements(mock: Operations, found: Sequence[Any], given: Given) -> object:
    payer, path, books = given.get("payer"), given.get("path"), mock.payments
    totals = {"spent": books.spent(payer, path), "signatures": books.signatures(payer), "pay_to": books.pay_to}
    return {"data": plain(found[:PAGE]), **totals}


def _balances(mock: Operations, found: dict[str, int], _: object) -> object:
    held = [{"payer": payer, "balance": balance} for payer, balance in found.items()]
    return {"data": held, "others": mock.gaps.payer_balance * settlements.MICRO}


def _balance(mock: Operations, _: object, given: Given) -> object:
    payer = accounts.normalized(given["payer"])
    return {"payer": settlements.with_checksum(payer), "balance": mock.payments.balance(payer)}


OPERATIONS = (
    ControlOperation("GET", "status", Operations.status),
    ControlOperation("POST", "reset", Operations.reset, _then(Operations.status)),
    ControlOperation("GET", "snapshot", _snapshot, raw=True),
    ControlOperation("POST", "restore", _restore, raw=True),
    ControlOperation("GET", "keys", Operations.list_keys),
    ControlOperation("POST", "keys", Operations.create_key),
    ControlOperation("POST", "keys/{key_id}/revoke", Operations.revoke_key, _key),
    ControlOperation("POST", "keys/{key_id}/expire", Operations.expire_key, _key),
    ControlOperation("POST", "keys/{key_id}/rotate", Operations.rotate_key),
    ControlOperation("POST", "tenants/{tenant}/plan", Operations.set_plan, _plan),
    ControlOperation("POST", "tenants/{tenant}/populate", Operations.populate),
    ControlOperation("POST", "agents/{agent_id}/start", Operations.start_agent, _agent),
    ControlOperation("POST", "agents/{agent_id}/stop", Operations.stop_agent, _agent),
    ControlOperation("POST", "agents/{agent_id}/status", Operations.set_agent_status, _agent),
    ControlOperation("POST", "signals", Operations.emit_signal),
    ControlOperation("GET", "faults", Operations.faults),
    ControlOperation("POST", "faults", Operations.add_fault),
    ControlOperation("DELETE", "faults", Operations.clear_faults),
    ControlOperation("GET", "faults/kinds", Operations.fault_kinds),
    ControlOperation("DELETE", "faults/{fault_id}", Operations.remove_fault, _then(Operations.faults)),
    ControlOperation("GET", "journal", Operations.journal, _journal),
    ControlOperation("DELETE", "journal", Operations.clear_journal),
    ControlOperation("GET", "clock", _clock),
    ControlOperation("POST", "clock", MockClock.move, _then(_clock)),
    ControlOperation("GET", "gaps", _gaps),
    ControlOperation("PUT", "gaps", Operations.set_gaps, _changed_gaps),
    ControlOperation("GET", "payments", MockPayments.settlements, _settlements),
    ControlOperation("GET", "payments/submissions", MockPayments.submissions, lambda _, found, __: found[:PAGE]),
    ControlOperation("GET", "payments/twice", MockPayments.charged_twice),
    ControlOperation("GET", "payments/balances", MockPayments.balances, _balances),
    ControlOperation("GET", "payments/balances/{payer}", MockPayments.balance, _balance),
    ControlOperation("PUT", "payments/balances/{payer}", MockPayments.set_balance, _balance),
    ControlOperation("GET", "payments/wallets/{owner}", MockPayments.wallet),
    ControlOperation("PUT", "payments/wallets/{owner}", MockPayments.deploy_wallet),
    ControlOperation(
        "PUT", "payments/delegated/{address}", MockPayments.delegate, lambda _, found, __: {"address": found}
    ),
)


def control_operations() -> list[ControlOperation]:
    """Every operation of the control API, except those that send or take a state file."""
    return [each for each in OPERATIONS if not each.raw]
