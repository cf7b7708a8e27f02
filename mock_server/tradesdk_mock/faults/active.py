"""Faults on demand: the rules of a world, and what they do to a request.

Several rules may hit one request. What they do happens in an order that has nothing to do with theirs: first another
answer, then what is in the body, then the stream's signals (reordered, doubled), its silence and its end, then what
stands between and in its lines, last how the bytes come and where they stop.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.errors import ApiError, MockServerError

if TYPE_CHECKING:
    from ..core.messages import Answer, Reply, Request
    from ..state import tenants
    from ..state.world import World
    from .catalog import FaultKind as FaultKind
    from .catalog import FaultParameter as FaultParameter
    from .faultwarnings import Place
    from .payment_faults import PaymentFaults
    from .responses import Hit
    from .rules import FaultRule as FaultRule

MOST_RULES = 1_000
_COLUMNS = (
    "id", "kind", "route", "method", "tenant", "nth", "every", "probability", "count", "parameters", "seen", "fired"
)  # fmt: skip

# A rule, and those that could leave nothing to it.
_NEAR = (
    " WHERE id = ? OR kind <> 'latency' AND count IS NULL AND nth IS NULL"
    " AND (route IS NULL OR route = ?) AND (method IS NULL OR method = ?) AND (tenant IS NULL OR tenant = ?)"
)


class Strike:
    """The rules that a request is hit by.

    Attributes:
        kinds: their kinds, in the order in which they are played.
        skips: the request isn't carried out; `answer` is the answer.
        code: the error code of that answer, where it has one.
        payment: what happens to the payment; None when nothing does.
    """

    def __init__(self, hits: list[Hit], refusal: ApiError | None = None) -> None:
        self._hits = hits
        self._refusal = refusal
        self._first = next((hit for hit in hits if hit.answers), None)
        self.kinds = tuple(hit.kind for hit in hits)
        self.payment: PaymentFaults | None = None
        ours = [hit for hit in hits if hit.rule.on == "payment"]
        if ours:
            from .payment_faults import PaymentFaults

            self.payment = PaymentFaults(ours)
        self.skips = refusal is not None or (self._first is not None and self._first.skips)
        self.code: str | None = refusal.code if refusal else None
        if self._first is not None and self.skips:
            from .responses import code_of

            self.code = code_of(self._first)

    def answer(self, world: World, caller: tenants.Principal | None) -> Answer:
        """What is answered in place of the service's answer."""
        from ..core.messages import error_answer
        from .responses import answer

        if self._first is None:
            assert self._refusal is not None  # noqa: S101 - nothing else skips the request
            return error_answer(self._refusal, world.gaps)
        return answer(self._first, world, caller)

    def apply(self, reply: Reply, world: World) -> None:
        """Let everything happen to the reply. A rule that finds nothing to spoil hasn't been played."""
        from .injection import play

        ours = self.payment.played if self.payment is not None else ()
        played = [hit for hit in self._hits if hit.kind in ours or play(hit, reply, world)]
        if len(played) < len(self._hits):
            world.faults.take_back([hit.rule.id for hit in self._hits if hit not in played])
            self.kinds = tuple(hit.kind for hit in played)


class Faults:
    """The rules about faults. They and their counts are in the state, so that every process on a file plays them."""

    def __init__(self, world: World) -> None:
        self._world = world
        # Whether there are any; None when that has to be looked up.
        self._known: bool | None = None

    def active(self) -> bool:
        """Whether there are rules at all."""
        store = self._world.store
        if store.path is not None:
            # Another process may have made one.
            return store.value("SELECT 1 FROM faults LIMIT 1") is not None
        if self._known is None:
            with store:
                self._known = store.value("SELECT 1 FROM faults LIMIT 1") is not None
        return self._known

    def add(self, kind: object, /, **given: object) -> FaultRule:
        """A new rule, for what `MockService.add_fault` says. None stands for what is left out.

        Raises:
            MockServerError: an unknown kind or parameter, or a value that it can't have; nothing is changed.
        """
        from ..core.seeding import ident
        from . import catalog, rules

        found, others = rules.conditions(given)
        parameters = catalog.parameters(kind, others)
        parameters |= {name: value for name in rules.LATER if (value := found.pop(name)) is not None}
        world = self._world
        with world.transaction():
            if world.store.value("SELECT count(*) FROM faults") >= MOST_RULES:
                raise MockServerError(f"there are {MOST_RULES:,} rules already: remove some, or clear them")
            fault_id = ident("flt", world.seed, world.store.next("", "fault"))
            world.store.add("faults", id=fault_id, kind=kind, parameters=json.dumps(parameters), **found)
            self._known = None
            return self._warned(self._load(_NEAR, fault_id, found["route"], found["method"], found["tenant"]))[-1]

    def rules(self) -> list[FaultRule]:
        """Every rule, oldest first."""
        return self._warned(self._load())

    def remove(self, fault_id: str) -> None:
        """Take a rule back. MockServerError when there is none of this id."""
        with self._world.transaction():
            if not self._world.store.run("DELETE FROM faults WHERE id = ?", (fault_id,)):
                raise MockServerError(f"there is no fault {fault_id!r}")
            self._known = None

    def clear(self) -> None:
        """Take every rule back."""
        with self._world.transaction():
            self._world.store.run("DELETE FROM faults")
            self._known = None

    def strike(self, request: Request, pattern: str | None) -> Strike | None:
        """What hits a request, counted; None when nothing does. Never raises, but for a crash.

        Args:
            pattern: the path as the router has it, None for one that the service doesn't have.
        """
        try:
            with self._world.transaction():
                hits = self._hits(request, pattern)
        except ApiError as error:
            return Strike([], error)
        return Strike(hits) if hits else None

    def take_back(self, ids: Iterable[str]) -> None:
        """These weren't played after all."""
        # When the file is busy, the count is one too high: the answer matters more.
        with contextlib.suppress(ApiError), self._world.transaction():
            self._world.store.run_many("UPDATE faults SET fired = fired - 1 WHERE id = ?", [(each,) for each in ids])

    def _load(self, where: str = "", *args: object) -> list[FaultRule]:
        from .catalog import KINDS
        from .rules import LATER, FaultRule

        found = []
        for row in self._world.store.records(_COLUMNS, f"faults{where} ORDER BY seq", args):
            parameters = json.loads(row["parameters"])
            later = {name: parameters.pop(name, None) for name in LATER}
            found.append(FaultRule(on=KINDS[row["kind"]].on, **{**row, **later, "parameters": parameters}))
        return found

    def _warned(self, rules: list[FaultRule]) -> list[FaultRule]:
        from .faultwarnings import Warnings

        warnings = Warnings(self._world)
        return [replace(rule, warning=warnings.of(rule)) for rule in rules]

    def _hits(self, request: Request, pattern: str | None) -> list[Hit]:
        from ..state import tenants
        from . import rules
        from .faultwarnings import place_of
        from .injection import ORDER
        from .responses import Hit

        world = self._world
        place = place_of(pattern)
        market = request.market or (place is not None and place.market)
        opens = place is not None and place.stream and request.method in place.methods
        every, seen, due = self._load(), [], []
        asked = any(rule.tenant or rule.key for rule in every)
        tenant, key = tenants.identify(world, request.headers) if asked else (None, None)
        now = world.now()
        for rule in every:
            if (
                rules.holds(rule, request, now)
                and (rule.tenant is None or rule.tenant == tenant)
                and (rule.key is None or rule.key == key)
                and (rule.on == "response" or (opens if rule.on == "stream" else _is_about(rule, request, place)))
                and rules.meets(rule.route, request.path, pattern)
            ):
                seen.append(rule.id)
                if rules.hits(world.seed, rule, rule.seen + 1):
                    due.append(Hit(rule, rule.seen + 1, place, market))
        hits = _together(due)
        store = world.store
        store.run_many("UPDATE faults SET seen = seen + 1 WHERE id = ?", [(each,) for each in seen])
        store.run_many("UPDATE faults SET fired = fired + 1 WHERE id = ?", [(hit.rule.id,) for hit in hits])
        return sorted(hits, key=lambda hit: ORDER[hit.kind])


def _is_about(rule: FaultRule, request: Request, place: Place | None) -> bool:
    """Whether a rule about payments is about this request: most need a payment, and an offer only something paid."""
    from ..payments.header import has_payment

    paid = place is not None and place.paid and request.method in place.methods
    return paid and (rule.kind == "offer" or has_payment(request))


def _together(due: list[Hit]) -> list[Hit]:
    """Those of the rules that are played together on one request."""
    from .faultwarnings import SAME

    first = next((hit for hit in due if hit.answers), None)
    found: list[Hit] = []
    taken: set[str] = set()
    for hit in due:
        if hit.answers:
            if hit is first:
                found.append(hit)
            continue
        if hit.rule.on == "payment":
            lost = first is not None and first.skips
        else:
            lost = first is not None and (first.loses or hit.rule.on == "stream") and hit.kind != "latency"
        if lost:
            continue  # there is nothing left that it could spoil
        what = SAME.get(hit.kind, hit.kind)
        if hit.kind == "latency" or what not in taken:
            found.append(hit)
            taken.add(what)
    return found


def describe() -> list[FaultKind]:
    """Every kind of fault, with its parameters."""
    from .catalog import describe

    return describe()


_HOMES = {"FaultKind": "catalog", "FaultParameter": "catalog", "FaultRule": "rules"}


def __getattr__(name: str) -> Any:
    # Public names whose modules a server without faults never loads.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{home}", __package__), name)
