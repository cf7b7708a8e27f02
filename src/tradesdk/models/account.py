"""The account and its usage."""

from ._base import Model
from ._types import Integer, Plan, Timestamp


class Account(Model):
    """The key's account (`GET /v1/account`)."""

    id: str
    """The account's id."""

    email: str
    """Its email address."""

    plan: Plan
    """`free`, `pro` or `enterprise`."""

    created_at: Timestamp
    """When it was opened (aware, UTC)."""

    api_key_last4: str
    """The last four characters of the key."""


class Quota(Model):
    """Usage of a resource, and its limit."""

    used: Integer
    """Used so far."""

    limit: Integer
    """The plan's limit."""


class Usage(Model):
    """Usage in the billing period (`GET /v1/account/usage`)."""

    requests: Quota
    """Requests in this period, and the plan's limit."""

    agents: Quota
    """Number of agents, and the plan's limit."""

    reset_at: Timestamp
    """When the period ends (aware, UTC)."""
