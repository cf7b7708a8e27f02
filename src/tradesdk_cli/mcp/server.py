"""The tools behind the Model Context Protocol, over stdio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tradesdk import __version__
from tradesdk_cli.mcp.answers import Fault
from tradesdk_cli.mcp.catalog import INSTRUCTIONS
from tradesdk_cli.text import to_json

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from tradesdk_cli.mcp.tools import Toolbox

_ANSWER_WITHIN = 20.0
"""Seconds that a client's question waits for a person; the action itself waits longer. Clients wait for both."""
_QUESTION = "approve"
_NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}}


def server_of(toolbox: Toolbox) -> Server[Any]:
    """The protocol's server for these tools."""
    shown: set[str] = set()
    listed = [types.Tool.model_validate(tool.listed()) for tool in toolbox.tools.values()]

    async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def answer(
        params: types.CallToolRequestParams, within: float | None = None
    ) -> tuple[types.CallToolResult, dict[str, Any] | None]:
        """The result of a call, and the pending action, if it is one."""
        try:
            found = await toolbox.call(params.name, params.arguments or {}, within=within)
        except Fault as fault:
            # No structured content: clients validate that of errors against the output schema, too.
            content: list[types.ContentBlock] = [types.TextContent(type="text", text=to_json(fault.as_dict()))]
            return types.CallToolResult(content=content, is_error=True), None
        content = [types.TextContent(type="text", text=to_json(found))]
        result = types.CallToolResult(content=content, structured_content=found)
        return result, found if found.get("status") == "approval_required" else None

    async def call(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        end = anyio.current_time() + toolbox.within
        result, waiting = await answer(params)
        # The question only notifies: a client's answer cannot approve; only trade approve can.
        if waiting is None or params.input_responses is not None or not _can_ask(ctx) or waiting["code"] in shown:
            return result
        shown.add(waiting["code"])
        question = f"To approve, run this in a terminal, then answer here: {waiting['approve_with']}"
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            form = types.ElicitRequestFormParams(message=question, requested_schema=_NO_FIELDS)
            return types.InputRequiredResult(input_requests={_QUESTION: types.ElicitRequest(params=form)})
        with anyio.move_on_after(min(_ANSWER_WITHIN, end - anyio.current_time())):
            try:
                await ctx.session.elicit_form(question, _NO_FIELDS, related_request_id=ctx.request_id)
            except Exception:  # the client cannot ask, or its answer is invalid: the action still waits
                return result
        return (await answer(params, within=end - anyio.current_time()))[0]

    return Server(
        "trade",
        version=__version__,
        title="trade",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call,
    )


async def serve_stdio(toolbox: Toolbox) -> None:
    """Serve one client over standard input and output, until it closes its end.

    Output of libraries goes to stderr: the protocol owns the real stdout.
    """
    server = server_of(toolbox)
    async with toolbox, stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def _can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    capabilities = ctx.session.client_capabilities
    asks = None if capabilities is None else capabilities.elicitation
    return asks is not None and (asks.form is not None or asks.url is None)
