"""Agents."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..._http.arguments import (
    argument_called,
    chain,
    comparable,
    confidence,
    identifier,
    optional_identifier,
    optional_text,
    optional_whole,
    required_text,
)
from ..._http.request import CreateLookup, Listing, Request, endpoint, model_request, request
from ..._http.response import decode_nothing
from ...errors import InvalidArgumentError
from ...models.agents import Agent, AgentSummary, Risk, RiskDict, rules_of
from ..pagination import AsyncPager
from ..session import AsyncResource

_FEWER = "to open fewer positions until then: client.agents.update(id, max_positions=1, min_confidence=1)"
_ITS_STATE = "see its state: client.agents.get(id).status"


class AsyncAgentsResource(AsyncResource):
    """`client.agents`: trading agents. Each trades on one chain with one wallet.

    The service documents no endpoint that starts, stops or pauses an agent; if it gets one, use `client.request`.
    """

    _not_in_the_api: ClassVar = {
        "pause": ("an agent cannot be paused", _FEWER),
        "resume": ("an agent cannot be resumed", _ITS_STATE),
        "start": ("an agent cannot be started", _ITS_STATE),
        "stop": ("an agent cannot be stopped", _FEWER),
    }

    def list(
        self,
        *,
        status: Literal["active", "idle", "paused", "error"] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        max_items: int | None = None,
    ) -> AsyncPager[AgentSummary]:
        """All agents as summaries, page by page (`GET /v1/agents`).

        Args:
            status: only agents with this status: `active`, `idle`, `paused` or `error`.
            limit: items per page, 1 to 100 (default 100).
            cursor: where to start: a page's `next_cursor`.
            max_items: at most this many items in total.
        """
        listing = Listing(endpoint("agents"), AgentSummary, {"status": optional_text("status", status)})
        return AsyncPager(self._session, listing, limit=limit, cursor=cursor, max_items=max_items)

    @argument_called("chain_id", not_="chain")
    async def create(
        self,
        *,
        name: str,
        wallet_id: str,
        chain_id: int,
        risk: Risk | RiskDict | None = None,
        min_confidence: float | None = None,
        max_positions: int | None = None,
    ) -> Agent:
        """Create an agent; it is `idle` (`POST /v1/agents`).

        The service documents no endpoint to start it: that is done in the dashboard. If the response is lost, the
        agents are listed before a retry, to check whether the agent was created.

        Args:
            name: a display name.
            wallet_id: a connected wallet.
            chain_id: 8453 (Base) or 56 (BNB Chain).
            risk: risk rules, as `Risk` or as a dict with its fields; the service chooses those that are None.
            min_confidence: trade signals of this confidence or more, 0.0 to 1.0 (the service's default is 0.75).
            max_positions: at most this many open positions (the service's default is 5).

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            UnprocessableEntityError: a value is invalid; the message names the field.
            PermissionDeniedError: the key is read-only, or the plan allows no more agents.
            AmbiguousOutcomeError: it may have been created, or it cannot be told which agent it is.
        """
        chain_id = chain("chain_id", chain_id)
        body = {
            "name": required_text("name", name),
            "wallet_id": identifier("wallet_id", wallet_id),
            "chain_id": chain_id,
            "risk": rules_of(risk),
            "min_confidence": confidence(min_confidence),
            "max_positions": optional_whole("max_positions", max_positions),
        }
        lookup = CreateLookup(
            Listing(endpoint("agents"), AgentSummary, {}),
            expected=(comparable(name), wallet_id, chain_id),
            identity=lambda agent: (comparable(agent.name), agent.wallet_id, agent.chain_id),
            fetch=_get,
        )
        return await self._session.call(model_request(Agent, "POST", endpoint("agents"), body=body, lookup=lookup))

    async def get(self, agent_id: str) -> Agent:
        """One agent with its settings and results (`GET /v1/agents/{agent_id}`).

        Raises:
            NotFoundError: the id is unknown, or the agent is not yours.
        """
        return await self._session.call(_get(agent_id))

    async def update(
        self,
        agent_id: str,
        *,
        name: str | None = None,
        wallet_id: str | None = None,
        risk: Risk | RiskDict | None = None,
        min_confidence: float | None = None,
        max_positions: int | None = None,
    ) -> Agent:
        """Change settings of an agent, running or not (`PATCH /v1/agents/{agent_id}`).

        Only the given settings change, and only the given rules of `risk`.

        Raises:
            InvalidArgumentError: an argument was refused, or none was given; nothing was sent.
            NotFoundError: the id is unknown, or the agent is not yours.
            UnprocessableEntityError: a value is invalid; the message names the field.
        """
        body = {
            "name": optional_text("name", name),
            "wallet_id": optional_identifier("wallet_id", wallet_id),
            "risk": rules_of(risk),
            "min_confidence": confidence(min_confidence),
            "max_positions": optional_whole("max_positions", max_positions),
        }
        path = endpoint("agents", identifier("agent_id", agent_id))
        if all(value is None or value == {} for value in body.values()):
            raise InvalidArgumentError("nothing to change", hint=f"pass one of {'=, '.join(body)}=; nothing was sent")
        return await self._session.call(model_request(Agent, "PATCH", path, body=body))

    async def delete(self, agent_id: str) -> None:
        """Delete an agent permanently; it must not be active (`DELETE /v1/agents/{agent_id}`).

        Raises:
            ConflictError: the agent is active; stop it first.
            NotFoundError: the id is unknown, or the agent is not yours.
            APIResponseError: the response is neither 204 nor empty nor JSON, so it may not come from the service.
        """
        path = endpoint("agents", identifier("agent_id", agent_id))
        await self._session.call(request("DELETE", path, decode_nothing))


def _get(agent_id: str) -> Request[Agent]:
    return model_request(Agent, "GET", endpoint("agents", identifier("agent_id", agent_id)))
