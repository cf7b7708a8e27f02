"""The account and its usage."""

from ._base import Model
from ._types import Integer, Plan, Timestamp


class Account(Model):
    """The key's account (`GET /v1/account`).

    Attributes:
        id: the account's id.
        email: its email address.
        plan: `free`, `pro` or `enterprise`.
        created_at: when it was opened.
        api_key_last4: the last four characters of the key.
    """

    id: str
    email: str
    plan: Plan
    created_at: Timestamp
    api_key_last4: str


class Quota(Model):
    """Usage of a resource, and its limit.

    Attributes:
        used: used so far.
        limit: the plan's limit.
    """

    used: Integer
    limit: Integer


class Usage(Model):
    """Usage in the billing period (`GET /v1/account/usage`).

    Attributes:
        requests: requests in this period.
        agents: number of agents.
        reset_at: when the period ends.
    """

    requests: Quota
    agents: Quota
    reset_at: Timestamp
