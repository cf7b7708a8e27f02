"""Trading agents and their risk rules."""

from collections.abc import Mapping
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
    """

    if not TYPE_CHECKING:  # hidden: type checkers derive it from the fields

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

        # Responses do not use it: rules added by the service are kept.
        __init__.__pydantic_base_init__ = True

    position_size_pct: Percent | None = None
    """Share of the available balance for one position, in percent."""

    stop_loss_pct: Percent | None = None
    """Stop loss: percent below the entry price."""

    trailing_stop_pct: Percent | None = None
    """Trailing stop, in percent."""

    take_profit_pct: Percent | None = None
    """Take profit: percent above the entry price."""


def rules_of(risk: Risk | RiskDict | None) -> dict[str, Any] | None:
    """The rules that are set. An unknown one is refused: it would silently have no effect."""
    if risk is None:
        return None
    if not isinstance(risk, Risk | Mapping):
        message = f"risk must be a Risk or a dict, not {type(risk).__name__}"
        raise InvalidArgumentError(message, hint="write risk=Risk(…)")
    given = dict[Any, Any](risk.model_dump() if isinstance(risk, Risk) else risk)  # a response may have unknown ones
    return Risk(**{str(name): rule for name, rule in given.items()}).model_dump(mode="json", exclude_none=True)


class AgentStats(Model):
    """Results of an agent."""

    total_trades: Integer
    """Completed trades."""

    win_rate_pct: Number
    """Share of them that won, in percent."""

    total_pnl_usd: Number
    """Realized profit or loss in USD."""


class AgentSummary(Model):
    """An agent in a list (`GET /v1/agents`)."""

    id: str
    """The agent's id."""

    name: str
    """Its name."""

    status: AgentStatus
    """`active`, `idle`, `paused` or `error`."""

    chain_id: Integer
    """8453 (Base) or 56 (BNB Chain)."""

    wallet_id: str
    """The wallet it trades with."""

    created_at: Timestamp
    """When it was created (aware, UTC)."""


class Agent(AgentSummary):
    """An agent with its settings (`GET /v1/agents/{agent_id}`)."""

    risk: Risk
    """Its risk rules; a rule that was never set may be None."""

    min_confidence: Confidence
    """Lowest confidence of signals that it trades, 0.0 to 1.0."""

    max_positions: Integer
    """At most this many open positions."""

    stats: AgentStats | None = None
    """Its results; None in the response to a create."""

    updated_at: Timestamp | None = None
    """When its settings last changed; None in the response to a create."""
