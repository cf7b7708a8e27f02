"""The description of both interfaces: `openapi.yaml` as JSON and as a page, with the address that is asked at."""

from __future__ import annotations

import html
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from ..core.errors import ApiError, Header, wrong_method
from ..core.messages import Answer

if TYPE_CHECKING:
    from ..core.messages import Request

Document = dict[str, Any]
_HERE = Path(__file__).parent
_HOST = re.compile(r"[0-9A-Za-z.\-_:\[\]]{1,255}", re.ASCII)
_ADDRESS = "https://address.invalid"
"""Stands in the page where the address belongs: what is made once is made without one."""
# The page needs nothing from anywhere, and a browser is told to fetch nothing.
_PAGE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"),
)


@lru_cache(maxsize=1)
def document() -> Document:
    """The description as it was written, without `servers`. Shared: not to be changed."""
    try:
        import yaml
    except ModuleNotFoundError:
        message = 'The description of the service needs pyyaml: pip install "tradesdk[mock]".'
        raise ApiError(500, "internal_error", message) from None

    # The loader in C is ten times as fast, and isn't everywhere.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: Document = yaml.load((_HERE / "openapi.yaml").read_text("utf-8"), loader)  # noqa: S506 - both are safe
    return found


def answer(request: Request) -> Answer:
    """What `/openapi.json` and `/docs` answer. ApiError (405) for anything but GET."""
    if request.method != "GET":
        raise wrong_method(request.method, ("GET",))
    address = _address(request)
    if request.path == "/docs":
        content = _page().replace(_ADDRESS, html.escape(address)).encode()
        headers = [*_PAGE_HEADERS]
    else:
        head, tail = _json()
        content = head + b',"servers":' + to_json([{"url": address}]) + b"," + tail
        headers = [(b"content-type", b"application/json")]
    return Answer(200, headers=[*headers, (b"content-length", b"%d" % len(content))], body=content)


@lru_cache(maxsize=1)
def _json() -> tuple[bytes, bytes]:
    """The JSON before and after `servers`."""
    whole = document()
    first = {name: whole[name] for name in ("openapi", "info")}
    rest = {name: value for name, value in whole.items() if name not in first}
    return to_json(first)[:-1], to_json(rest)[1:]


@lru_cache(maxsize=1)
def _page() -> str:
    from .openapipage import render

    return render(document(), _ADDRESS, (_HERE / "openapi.css").read_text("utf-8"))


def _address(request: Request) -> str:
    """Where the service was asked. A Host that is none isn't repeated."""
    host = (request.header(b"host") or b"").decode("latin-1")
    return f"http://{host if _HOST.fullmatch(host) else 'localhost'}"
