"""The web application: which path leads where."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from . import control
from .routes import ROUTES
from .web import Resource
from .world import World


def build_app(world: World) -> Starlette:
    """The application over a world. It holds no state of its own."""
    app = Starlette(
        routes=[
            *(Route(path, Resource(world, endpoints)) for path, endpoints in ROUTES),
            *(Route(path, control.ControlResource(world, actions)) for path, actions in control.ROUTES),
        ]
    )
    nowhere, no_control = Resource(world), control.ControlResource(world)

    async def otherwise(scope: Scope, receive: Receive, send: Send) -> None:
        inside = scope["path"].startswith("/_mock/")
        await (no_control if inside else nowhere)(scope, receive, send)

    app.router.default = otherwise
    # A trailing slash is another path, and it doesn't exist.
    app.router.redirect_slashes = False
    return app
