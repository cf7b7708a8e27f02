"""Trading agents and their risk rules."""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

from pydantic import BeforeValidator, ValidationError
from pydantic_core import PydanticKnownError

from .._values.text import printable, wrong_number
from ..errors import InvalidArgumentError
from ._base import Model
from ._types import AgentStatus, Confidence, Integer, Number, Timestamp


def _number(value: Any) -> Any:
    if isinstance(value, bool | str | bytes):
        raise PydanticKnownError("float_type")
    return value


# Callers may pass a rule as a `Decimal`, which `Number` refuses.
Percent: TypeAlias = Annotated[float, BeforeValidator(_number)]


class RiskDict(TypedDict, total=False):
    """The fields of `Risk` as a dict."""

    position_size_pct: float | None
    stop_loss_pct: float | None
    trailing_stop_pct: float | None
    take_profit_pct: float | None


class Risk(Model):
    """Risk rules of an agent, all in percent, all optional. A rule that is None is not sent, and stays as it is.

    Raises:
        InvalidArgumentError: the rule is unknown, or its value is not a number.

    Attributes:
        position_size_pct: share of the available balance for one position.
        stop_loss_pct: stop loss, this far below the entry price.
        trailing_stop_pct: trailing stop.
        take_profit_pct: take profit, this far above the entry price.
    """

    if not TYPE_CHECKING:  # type checkers derive it from the fields

        def __init__(self, **rules: float | None) -> None:
            for name in rules.keys() - type(self).model_fields.keys():
                known = ", ".join(type(self).model_fields)
                message = f"Risk has no field {printable(name, 60)}; it has {known}"
                raise InvalidArgumentError(message, hint="set only these fields of Risk")
            try:
                super().__init__(**rules)
            except ValidationError as error:
                problem = error.errors(include_url=False, include_input=False)[0]
                name = ".".join(str(part) for part in problem["loc"])
                if problem["type"] in ("float_type", "float_parsing"):
                    message, hint = wrong_number(name, "a number", rules.get(name))
                    raise InvalidArgumentError(message, hint=hint) from None
                message = f"{name} {problem['msg'].removeprefix('Input ')}"
                raise InvalidArgumentError(message, hint=f"set {name} to a number, or leave it out") from None

        # Answers do not go through it: rules added by the service are kept.
        __init__.__pydantic_base_init__ = True

    position_size_pct: Percent | None = None
    stop_loss_pct: Percent | None = None
    trailing_stop_pct: Percent | None = None
    take_profit_pct: Percent | None = None


class AgentStats(Model):
    """Results of an agent.

    Attributes:
        total_trades: completed trades.
        win_rate_pct: share of them that won, in percent.
        total_pnl_usd: realized profit or loss in USD.
    """

    total_trades: Integer
    win_rate_pct: Number
    total_pnl_usd: Number


class AgentSummary(Model):
    """An agent in a list (`GET /v1/agents`).

    Attributes:
        id: the agent's id.
        name: its name.
        status: `active`, `idle`, `paused` or `error`.
        chain_id: 8453 (Base) or 56 (BNB Chain).
        wallet_id: the wallet it trades with.
        created_at: when it was created.
    """

    id: str
    name: str
    status: AgentStatus
    chain_id: Integer
    wallet_id: str
    created_at: Timestamp


class Agent(AgentSummary):
    """An agent with its settings (`GET /v1/agents/{agent_id}`).

    Attributes:
        risk: its risk rules; a rule that was never set may be None.
        min_confidence: lowest confidence of signals that it trades, 0.0 to 1.0.
        max_positions: at most this many open positions.
        stats: its results; None in the answer to a create.
        updated_at: when its settings last changed; None in the answer to a create.
    """

    risk: Risk
    min_confidence: Confidence
    max_positions: Integer
    stats: AgentStats | None = None
    updated_at: Timestamp | None = None
