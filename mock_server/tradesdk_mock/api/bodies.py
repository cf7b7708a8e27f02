"""Models of request bodies. Imported with the first write: building them takes half of a server's start."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..core.errors import invalid
from .context import Context

Number = Annotated[float, Field(allow_inf_nan=False)]
# The range of a database integer.
Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class RiskBody(_Body):
    position_size_pct: Number = 0.0
    stop_loss_pct: Number = 0.0
    trailing_stop_pct: Number = 0.0
    take_profit_pct: Number = 0.0

    def given(self) -> dict[str, float]:
        """Only the fields that were sent."""
        return self.model_dump(exclude_unset=True)


class CreateAgentBody(_Body):
    name: str
    wallet_id: str
    chain_id: Integer
    risk: RiskBody = RiskBody()
    min_confidence: Number = 0.75
    max_positions: Integer = 5


class UpdateAgentBody(_Body):
    """`model_fields_set` says which fields were sent; the defaults are never used."""

    name: str = ""
    wallet_id: str = ""
    risk: RiskBody = RiskBody()
    min_confidence: Number = 0.0
    max_positions: Integer = 0


class ConnectWalletBody(_Body):
    address: str
    chain_id: Integer
    label: str
    signature: str


B = TypeVar("B", bound=_Body)


def read_body(call: Context, model: type[B]) -> B:
    """The body as `model`: 400 for a field that is missing, has a wrong type or, by gap option, is unknown."""
    found = call.json()
    if call.world.gaps.unknown_field == "400":
        _refuse_unknown(model, found, "")
        if "risk" in model.model_fields and isinstance(found.get("risk"), dict):
            _refuse_unknown(RiskBody, found["risk"], "risk.")
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise invalid(f"{where}: {first['msg']}") from None


def _refuse_unknown(model: type[BaseModel], found: dict[str, Any], prefix: str) -> None:
    unknown = sorted(found.keys() - model.model_fields.keys())
    if unknown:
        raise invalid(f"{prefix}{unknown[0][:80]}: not a field of this request")
