"""The control API `/_mock/*`: moves the mock's world from outside. For programs on this machine only."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from ..api.validation import MAX_BODY, json_body
from ..core.errors import ApiError, MockServerError, forbidden, internal, invalid, no_route, wrong_method
from ..core.messages import Answer, Request, error_answer
from ..core.router import Router
from ..state.world import World
from .actions import ACTIONS, RAW, Action, Body
from .paymentactions import PAYMENT_ACTIONS

log = logging.getLogger("tradesdk_mock")
ROUTES = [*ACTIONS, *PAYMENT_ACTIONS]
MAX_STATE = 1024 * 1024 * 1024


def longest_body(path: str, client: str | None) -> int:
    """How many bytes of a request are read: far more of a state that a program on this machine sends."""
    return MAX_STATE if path == "/_mock/restore" and _is_loopback(client) else MAX_BODY


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


def check_local(request: Request, *, remote: bool = False) -> None:
    """403 unless a program on this machine asks, and not a web page in a browser on it.

    The peer's address keeps other machines out; the Host header, pages whose name was pointed at this machine; the
    Origin header, pages that simply send a form here. With `remote` any program may ask, but still no web page.
    """
    if not remote and not _is_loopback(request.client):
        raise forbidden("The control API answers to programs on this machine only.")
    for name, value in request.headers:
        if name == b"origin" or (name == b"host" and not remote):
            text = value.decode("latin-1")
            try:
                host = urlsplit(text if name == b"origin" else f"//{text}").hostname
            except ValueError:
                host = None
            if not _is_loopback(host):
                raise forbidden(f"The control API doesn't answer to {name.decode().title()} {text[:80]!r}.")


def control_api(world: World, *, remote: bool = False) -> Callable[[Request], Answer]:
    """What answers the control paths. It never raises."""
    router = Router(ROUTES)

    def answer(request: Request) -> Answer:
        found = router.find(request.path)
        request.params = found[2] if found else {}
        try:
            answer = _act(world, request, found[1] if found else {}, remote)
            return answer if isinstance(answer, Answer) else Answer(200, answer)
        except ApiError as error:
            return error_answer(error, world.gaps)
        except Exception:
            log.exception("%s %r crashed", request.method, request.path)
            return error_answer(internal(), world.gaps)

    return answer


def _act(world: World, request: Request, actions: Mapping[str, Action], remote: bool) -> object:
    check_local(request, remote=remote)
    action = actions.get(request.method)
    if action is None:
        raise wrong_method(request.method, sorted(actions)) if actions else no_route(request.path)
    body: Body = {}
    if action in RAW:
        try:
            return action(world, request, body)
        except MockServerError as error:
            raise invalid(str(error)) from None
    # An action without arguments needs no body.
    if request.method in ("POST", "PUT") and request.content != b"":
        body = json_body(request.headers, request.content)
    try:
        # One transaction, so that other processes on the same file see all of it or nothing.
        with world.transaction():
            return action(world, request, body)
    except (MockServerError, ValueError) as error:
        raise invalid(str(error)) from None
