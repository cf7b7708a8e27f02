"""The retries of one call: one counter, the deadline, the budget, and looking first once a create is in doubt."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Failure, FailureCause, Operation, RetryPolicy
from tradesdk._http.retry import Retries, RetryBudget

from .._rows import each_of

NOW = 1_700_000_000.0
LOST, NOT_SENT, HOPELESS = Failure(FailureCause.LOST), Failure(FailureCause.NOT_SENT), Failure(FailureCause.HOPELESS)


def status(code: int, *, service: bool = True, **headers: str) -> Failure:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(FailureCause.STATUS, code, named, service_error=service)


class Call:
    """The retries of one call with a steady jitter of nothing; `fail` gives the wait, or None for "raise"."""

    def __init__(
        self,
        operation: Operation = Operation.READ,
        *,
        can_look_up: bool | None = None,
        policy: RetryPolicy | None = None,
        budget: RetryBudget | None = None,
    ) -> None:
        self.budget = budget or RetryBudget()
        look = operation is Operation.CREATE if can_look_up is None else can_look_up
        self.retries = Retries(policy or RetryPolicy(), self.budget, operation, can_look_up=look, random=lambda: 0.0)

    def fail(self, failure: Failure, *, time_left: float = 1e9) -> float | None:
        return self.retries.next(failure, now=NOW, time_left=time_left)


def test_two_retries_after_a_500_in_the_whole_call() -> None:
    call = Call()
    assert [call.fail(status(500)) for _ in range(3)] == [2, 4, None]
    call = Call()
    mixed = [status(500), LOST, status(500), status(503), status(500)]
    assert [call.fail(failure) for failure in mixed] == [2, 4, 8, 16, None]


def test_a_raised_failure_costs_nothing_and_is_not_counted() -> None:
    call = Call()
    assert call.fail(status(400)) is None
    assert call.fail(HOPELESS) is None
    assert (call.retries.count, call.retries.spent, call.budget.tokens) == (0, 0, 500)


@each_of("code", [429, 503])
def test_a_wait_of_120_seconds_is_taken_and_a_longer_one_raised_at_once(code: int) -> None:
    assert Call().fail(status(code, retry_after="120")) == 120
    call = Call()
    assert call.fail(status(code, retry_after="120.001")) is None
    assert call.fail(status(code, retry_after="9" * 400)) is None
    assert call.fail(status(code, x_ratelimit_reset=str(int(NOW) + 120))) is None  # and the second that is added
    assert call.fail(status(code, x_ratelimit_reset=str(int(NOW) + 119))) == 120
    assert call.retries.count == 1


def test_no_wait_passes_the_deadline() -> None:
    assert Call().fail(LOST, time_left=2) == 2
    assert Call().fail(LOST, time_left=1.999) is None
    assert Call().fail(LOST, time_left=0) is None
    assert Call().fail(LOST, time_left=-5) is None
    assert Call().fail(status(429, retry_after="50"), time_left=49) is None
    assert Call().fail(status(429, retry_after="50"), time_left=math.inf) == 50


# Creates


def test_a_lost_create_is_looked_for_before_every_later_attempt() -> None:
    call = Call(Operation.CREATE)
    assert call.fail(NOT_SENT) == 2
    assert not call.retries.must_look_up
    assert call.fail(LOST) == 4
    assert call.retries.must_look_up
    for number, failure in enumerate((NOT_SENT, status(429), status(503)), 3):
        assert call.fail(failure) == 2**number
        assert call.retries.must_look_up, "an attempt may still have created it"


@each_of("failure", [LOST, status(502), status(504), status(503, service=False)])
def test_an_open_outcome_makes_a_create_look(failure: Failure) -> None:
    call = Call(Operation.CREATE)
    assert call.fail(failure) == 2
    assert call.retries.must_look_up
    assert call.retries.outcome_unknown


def test_a_create_that_nobody_can_look_for_is_raised() -> None:
    call = Call(Operation.CREATE, can_look_up=False)
    assert call.fail(status(429)) == 2
    assert call.fail(LOST) is None
    assert call.retries.outcome_unknown
    assert call.budget.tokens == 495


# The budget


@each_of(("failure", "cost"), [(LOST, 14), (NOT_SENT, 14), (status(500), 14), (status(503), 14), (status(429), 5)])
def test_what_a_retry_costs(failure: Failure, cost: int) -> None:
    call = Call()
    call.fail(failure)
    assert (call.budget.tokens, call.retries.spent) == (500 - cost, cost)
    call.fail(failure)
    assert (call.budget.tokens, call.retries.spent) == (500 - 2 * cost, 2 * cost)


def test_a_budget_takes_all_or_nothing_and_never_holds_more_than_it_began_with() -> None:
    budget = RetryBudget(20)
    assert budget.take(14)
    assert not budget.take(7)
    assert budget.tokens == 6
    assert budget.take(6)
    assert not budget.take(1)
    budget.give_back(14)
    assert budget.tokens == 14
    budget.give_back(500)
    assert budget.tokens == 20
    budget.give_back(1)
    assert budget.tokens == 20


# Properties

headers = st.fixed_dictionaries(
    {},
    optional={
        "retry-after": st.one_of(st.integers(-10, 500).map(str), st.text(max_size=20)),
        "x-ratelimit-reset": st.one_of(st.integers(int(NOW) - 50, int(NOW) + 300).map(str), st.text(max_size=20)),
        "date": st.one_of(st.just("Tue, 14 Nov 2023 22:13:20 GMT"), st.text(max_size=20)),
    },
)
failures = st.builds(
    Failure,
    st.sampled_from(FailureCause),
    st.sampled_from([0, 301, 400, 404, 429, 429, 500, 502, 503, 503, 504, 520]),
    headers,
    st.booleans(),
)


@given(
    st.sampled_from(Operation),
    st.booleans(),
    st.integers(0, 5),
    st.lists(failures, max_size=30),
    st.floats(min_value=0, max_value=500),
    st.integers(0, 500),
)
def test_any_sequence_of_failures_ends(
    operation: Operation, can_look_up: bool, most: int, sequence: list[Failure], time_left: float, tokens: int
) -> None:
    budget = RetryBudget(tokens)
    call = Call(operation, can_look_up=can_look_up, policy=RetryPolicy(max_retries=most), budget=budget)
    taken = 0
    in_doubt = False
    for failure in sequence:
        wait = call.fail(failure, time_left=time_left)
        in_doubt = in_doubt or failure.outcome_unknown
        if wait is None:  # raised: the call is over
            break
        taken += 1
        assert 2**taken <= wait < math.inf
        assert wait <= time_left
        assert wait <= 120
        assert not (operation is Operation.CREATE and in_doubt and not call.retries.must_look_up)
    assert taken == call.retries.count <= most
    assert budget.tokens + call.retries.spent == tokens
    assert budget.tokens >= 0
