"""Fault rules: stored, matched to requests, and counted.

Several rules may apply to one request, always in this order: first a replaced response, then the content of the body,
then the stream's signals (reordered, duplicated), its silence and its end, then the bytes between and in its lines,
last how the bytes arrive and where they stop.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ..core.errors import ApiError, MockServerError, unknown
from ..core.router import path_pattern
from ..core.seeding import SeededRandom, ident
from ..state import tenants

if TYPE_CHECKING:
    from ..core.messages import Request
    from ..state.world import World
    from .catalog import FaultRule, FaultTarget

MAX_RULES = 1_000
_COLUMNS = ("id", "kind", "conditions", "parameters", "seen", "fired")
# Kinds that change the same part of a response: only the oldest of their rules applies.
_PARTS = {"malformed_json": "content", "huge_body": "content", "truncate": "end", "bad_chunk": "end", "reset": "end"}
_PARTS |= {"half_event": "end of the stream", "drop": "end of the stream"}


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """A rule that applies to a request.

    Attributes:
        ordinal: the request's number among those that match the rule, from 1.
        target: what faults can change besides the response itself.
        market: the request is for market data.
    """

    rule: FaultRule
    ordinal: int
    target: FaultTarget
    market: bool

    @property
    def kind(self) -> str:
        return self.rule.kind

    @property
    def replaces_response(self) -> bool:
        """Whether another response is sent, or none."""
        return self.kind == "status" or self.resets

    @property
    def resets(self) -> bool:
        """Whether the connection is reset before any response."""
        return self.kind == "reset" and "after" not in self.rule.parameters

    @property
    def skips_request(self) -> bool:
        """Whether the request isn't carried out."""
        return self.replaces_response and not self.rule.parameters["executed"]

    def get(self, name: str) -> Any:
        return self.rule.parameters.get(name)


class MatchedFaults:
    """The rules that apply to one request, oldest first.

    Attributes:
        payment: the faults of its payment.
        node: the faults of the node that it goes to.
    """

    def __init__(self, rules: list[MatchedRule]) -> None:
        # Loaded here, as below: most worlds have no rules.
        from ..payments.requirements import PaymentFaults

        self.rules = rules
        self.payment, self.node = (
            PaymentFaults({each.kind: each.rule.parameters for each in rules if each.rule.on == on})
            for on in ("payment", "node")
        )

    @property
    def replacement(self) -> MatchedRule | None:
        """The rule that replaces the service's own response."""
        return next((each for each in self.rules if each.replaces_response), None)

    @property
    def skips_request(self) -> bool:
        """Whether the request isn't carried out."""
        return self.replacement is not None and self.replacement.skips_request


class Faults:
    """The fault rules of a world. They and their counts are part of its state: all processes on a file share them."""

    def __init__(self, world: World) -> None:
        self.world = world
        # Whether there are rules, and the generation of the world for which that is known.
        self._any = False
        self._known_for: int | None = None

    def active(self) -> bool:
        """Whether there are rules at all."""
        store = self.world.store
        if store.path is not None:
            # Another process may have added one.
            return self._exists()
        if self._known_for != self.world.generation:
            with store.transaction():
                self._any = self._exists()
                self._known_for = self.world.generation
        return self._any

    def _exists(self) -> bool:
        return self.world.store.value("SELECT 1 FROM faults LIMIT 1") is not None

    def add(self, kind: object, /, **given: object) -> FaultRule:
        """Add a rule, as `MockService.add_fault` describes it. None is the same as leaving an argument out.

        Raises:
            MockServerError: an unknown kind or parameter, or a value that it can't have; nothing is changed.
        """
        from . import catalog

        conditions, others = catalog.conditions(given)
        parameters = catalog.parameters(kind, others)
        world = self.world
        with world.transaction():
            if world.store.value("SELECT count(*) FROM faults") >= MAX_RULES:
                raise MockServerError(f"there are {MAX_RULES:,} rules already: remove some, or clear them")
            fault_id = ident("flt", world.seed, world.store.next("", "fault"))
            texts = {"conditions": json.dumps(conditions), "parameters": json.dumps(parameters)}
            world.store.add("faults", id=fault_id, kind=kind, **texts)
            self._known_for = None
            (rule,) = self._load(" WHERE id = ?", fault_id)
            return rule

    def rules(self) -> list[FaultRule]:
        """Every rule, oldest first."""
        return self._load()

    def remove(self, fault_id: str) -> None:
        """Remove a rule. MockServerError when there is none with this id."""
        with self.world.transaction():
            if not self.world.store.run("DELETE FROM faults WHERE id = ?", (fault_id,)):
                raise unknown(f"there is no fault {fault_id[:80]!r}")
            self._known_for = None

    def clear(self) -> None:
        """Remove every rule."""
        with self.world.transaction():
            self.world.store.run("DELETE FROM faults")
            self._known_for = None

    def match(self, request: Request, target: FaultTarget, *, market: bool) -> MatchedFaults | None:
        """The rules that apply to a request, counted; None without any.

        `target` and `market`: as `MatchedRule` has them.
        """
        with self.world.transaction():
            rules = self._match(request, target, market)
        return MatchedFaults(rules) if rules else None

    def take_back(self, matched: Iterable[MatchedRule]) -> None:
        """Subtract these from the counts: they were not applied."""
        ids = [(each.rule.id,) for each in matched]
        # If the file is busy, the count is one too high: the response matters more.
        with contextlib.suppress(ApiError), self.world.transaction():
            self.world.store.run_many("UPDATE faults SET fired = fired - 1 WHERE id = ?", ids)

    def _load(self, where: str = "", *args: object) -> list[FaultRule]:
        rows = self.world.store.rows(_COLUMNS, f"faults{where} ORDER BY seq", args)
        if not rows:
            return []
        from .catalog import KINDS, FaultRule  # loaded here, as in `add`: most worlds have no rules

        found = []
        for row in rows:
            conditions, parameters = (json.loads(row.pop(name)) for name in ("conditions", "parameters"))
            found.append(FaultRule(on=KINDS[row["kind"]].on, **row, **conditions, parameters=parameters))
        return found

    def _match(self, request: Request, target: FaultTarget, market: bool) -> list[MatchedRule]:
        from ..payments.header import has_payment

        world = self.world
        every, seen, due = self._load(), [], []
        needs_key = any(rule.tenant or rule.key for rule in every)
        tenant, key = tenants.identify(world, request.headers) if needs_key else (None, None)
        now, pays = world.now(), has_payment(request)
        for rule in every:
            if (
                _meets_conditions(rule, request, pays, now)
                and (rule.tenant is None or rule.tenant == tenant)
                and (rule.key is None or rule.key == key)
                and rule.on in ("response", target)
            ):
                seen.append(rule.id)
                if _is_due(world.seed, rule, rule.seen + 1):
                    due.append(MatchedRule(rule, rule.seen + 1, target, market))
        matched = _compatible(due)
        store = world.store
        store.run_many("UPDATE faults SET seen = seen + 1 WHERE id = ?", [(each,) for each in seen])
        store.run_many("UPDATE faults SET fired = fired + 1 WHERE id = ?", [(each.rule.id,) for each in matched])
        return matched


def _meets_conditions(rule: FaultRule, request: Request, pays: bool, now: float) -> bool:
    """Whether the request meets the rule's method, route, query, payment and time."""
    return (
        (rule.method is None or rule.method == request.method)
        and (rule.route is None or path_pattern(rule.route).fullmatch(request.path) is not None)
        and (rule.paid is None or (rule.paid == "only") == pays)
        # Faults of payments need a payment, but for the offer: it asks for one.
        and (rule.on != "payment" or rule.kind == "offer" or pays)
        and (rule.since is None or rule.since <= now)
        and (rule.until is None or now < rule.until)
        and (
            rule.query is None
            or rule.query.items() <= set(parse_qsl(request.query.decode("latin-1"), keep_blank_values=True))
        )
    )


def chance(seed: int, rule: FaultRule, *parts: object) -> float:
    """A number in [0, 1) for a rule and one use of it."""
    return SeededRandom(seed, "fault", rule.id, *parts, draws=1).unit()


def _is_due(seed: int, rule: FaultRule, ordinal: int) -> bool:
    """Whether a rule applies to the matching request of this ordinal, counted from 1."""
    if rule.nth is not None and ordinal != rule.nth:
        return False
    if rule.every is not None and ordinal % rule.every:
        return False
    if rule.count is not None and rule.fired >= rule.count:
        return False
    return rule.probability is None or chance(seed, rule, "hit", ordinal) < rule.probability


def _compatible(due: list[MatchedRule]) -> list[MatchedRule]:
    """The rules that can be applied together to one request."""
    first = next((each for each in due if each.replaces_response), None)
    found: list[MatchedRule] = []
    taken: set[str] = set()
    for each in due:
        if each.replaces_response:
            if each is first:
                found.append(each)
            continue
        if each.rule.on in ("payment", "node"):
            nothing_left = first is not None and first.skips_request
        else:
            nothing_left = first is not None and (first.resets or each.rule.on == "stream") and each.kind != "latency"
        if nothing_left:
            continue
        part = _PARTS.get(each.kind, each.kind)
        if each.kind == "latency" or part not in taken:
            found.append(each)
            taken.add(part)
    return found
