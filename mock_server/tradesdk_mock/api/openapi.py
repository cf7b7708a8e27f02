"""The description of both APIs: `openapi.yaml` as JSON, with the address of the server."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..core.errors import ApiError, wrong_method
from ..core.messages import Response

if TYPE_CHECKING:
    from ..core.messages import Request

Document = dict[str, Any]
_HOST = re.compile(r"[0-9A-Za-z.\-_:\[\]]{1,255}", re.ASCII)


@lru_cache(maxsize=1)
def document() -> Document:
    """The description without `servers`. Shared: do not change it."""
    try:
        import yaml
    except ModuleNotFoundError:
        message = 'The description of the service needs pyyaml: pip install "pyyaml>=6.0.2,<7".'
        raise ApiError(500, "internal_error", message) from None

    # The C loader is ten times as fast but isn't always installed.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: Document = yaml.load(files("tradesdk_mock.api").joinpath("openapi.yaml").read_text("utf-8"), loader)  # noqa: S506 - both are safe
    return found


def respond(request: Request) -> Response:
    """GET /openapi.json; ApiError (405) for another method."""
    if request.method != "GET":
        raise wrong_method(request.method, ("GET",))
    whole = document()
    first = {name: whole[name] for name in ("openapi", "info")}
    return Response(200, first | {"servers": [{"url": _address(request)}]} | whole)


def _address(request: Request) -> str:
    """The address in the Host header; an invalid one isn't repeated."""
    host = (request.header(b"host") or b"").decode("latin-1")
    return f"http://{host if _HOST.fullmatch(host) else 'localhost'}"
