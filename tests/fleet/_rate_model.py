"""The rules of a shared rate window once more, in Python: the script's third opinion. Times are whole milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

MINUTE = 60_000


@dataclass
class Window:
    """What the service has told, and until when it holds. `left` is None where the service tells no limit."""

    ends: int
    left: int | None = None
    reset: int | None = None
    limit: int = -1


@dataclass
class Model:
    window: Window | None = None
    in_flight: dict[str, int] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    probe: tuple[str, int] | None = None
    untold: int = 0

    def _begin(self, now: int) -> None:
        window = self.window
        if window is not None and not window.ends - 66_000 <= now < window.ends + MINUTE:
            self.window = None
        for claim, made in list(self.in_flight.items()):
            if made >= now + MINUTE:
                del self.in_flight[claim]
            elif made <= now - MINUTE:
                del self.in_flight[claim]
                self._count_one()

    def _count_one(self) -> None:
        if self.window is not None and self.window.left is not None:
            self.window.left = max(0, self.window.left - 1)

    def claim(self, claim: str, member: str, now: int) -> tuple[bool, int, int]:
        """Whether it may be sent, how long to wait else, and how many members there are."""
        self._begin(now)
        self.members[member] = now
        self.members = {name: seen for name, seen in self.members.items() if abs(now - seen) < 2 * MINUTE}
        wait = self._wait(claim, now)
        if wait == 0:
            self.in_flight[claim] = now
        return wait == 0, wait, len(self.members)

    def _wait(self, claim: str, now: int) -> int:
        window = self.window
        if window is None or now >= window.ends:
            if self.probe is not None and now < self.probe[1] <= now + 5000:
                return min(self.probe[1] - now, max(50, now + 5000 - self.probe[1]))
            self.probe = claim, now + 5000
            return 0
        if window.left is None or window.left > len(self.in_flight):
            return 0
        rest = window.ends - now
        return rest if window.left == 0 else min(rest, max(50, now - max(self.in_flight.values())))

    def _end_probe(self, claim: str) -> bool:
        ended = self.probe is not None and self.probe[0] == claim
        if ended:
            self.probe = None
        return ended

    def lost(self, claim: str, now: int) -> None:
        self._begin(now)
        self._end_probe(claim)

    def give_back(self, claim: str, now: int) -> None:
        self._begin(now)
        self._end_probe(claim)
        self.in_flight.pop(claim, None)

    def answer(
        self, claim: str, status: int, limit: int, told: tuple[int, int] | None, away: int | None, wait: int, now: int
    ) -> None:
        """`told`: what is left, and the reset. `away`: from the service's date to the reset. `wait`: after a 429."""
        self._begin(now)
        probed = self._end_probe(claim)
        made = self.in_flight.pop(claim, None)
        if told is None:
            self._answer_without_numbers(status, claim, made, now)
        else:
            self.untold = 0
        if told is not None and not self._answer_with_numbers(probed, limit, *told, away, now):
            return
        if status == 429:
            closed = now + 1000 + min(MINUTE, wait)
            if self.window is None:
                self.window = Window(closed)
            self.window.left = 0
            self.window.ends = max(self.window.ends, closed)

    def _answer_without_numbers(self, status: int, claim: str, made: int | None, now: int) -> None:
        told = self.window is not None and self.window.left is not None
        if made is not None and self.in_flight and (told or self.window is None):
            self.in_flight[claim] = made  # an answer under way may tell a number from before it
        elif made is not None:
            self._count_one()
        if not told and status < 500 and status != 429:
            self.untold += 1
            if self.untold >= 3:
                self.window = Window(now + MINUTE)

    def _answer_with_numbers(self, probed: bool, limit: int, left: int, reset: int, away: int | None, now: int) -> bool:
        """False: it belongs to an older window."""
        if away is None:
            away = reset * 1000 - now
        ends = now + 1000 + (away if 0 <= away <= 65_000 else MINUTE)
        window = self.window
        if window is None or window.reset is None or reset > window.reset:
            self.window = Window(ends, left, reset, limit)
            return True
        if reset < window.reset:
            return False
        assert window.left is not None
        window.left = min(window.left, left)
        if probed and now >= window.ends:
            window.ends = ends
        return True

    def look(self, now: int) -> tuple[int, int, int, int, int]:
        """Members, claims in flight, what is left, the limit, the time to the end; -1 for what is not known."""
        self._begin(now)
        window = self.window
        members = sum(seen >= now - 2 * MINUTE for seen in self.members.values())
        if window is None:
            return members, len(self.in_flight), -1, -1, -1
        left = -1 if window.left is None else window.left
        return members, len(self.in_flight), left, window.limit, max(0, window.ends - now)
