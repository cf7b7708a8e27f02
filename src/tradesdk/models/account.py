"""The account and what it has used."""

from ._base import Model
from ._types import Integer, Plan, Timestamp


class Account(Model):
    """The account that a key belongs to (`GET /v1/account`).

    Attributes:
        id: the account's id.
        email: its email address.
        plan: `free`, `pro` or `enterprise`.
        created_at: when it was opened.
        api_key_last4: how the key ends, to tell keys apart.
    """

    id: str
    email: str
    plan: Plan
    created_at: Timestamp
    api_key_last4: str


class Quota(Model):
    """How much of something is used and how much there is.

    Attributes:
        used: used so far.
        limit: the most the plan allows.
    """

    used: Integer
    limit: Integer


class Usage(Model):
    """Usage in the billing period (`GET /v1/account/usage`).

    Attributes:
        requests: requests in this period.
        agents: agents.
        reset_at: when the period ends.
    """

    requests: Quota
    agents: Quota
    reset_at: Timestamp
