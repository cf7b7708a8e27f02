"""What is sent again: the whole table, cell by cell. The columns are operations, the rows are failures."""

import pytest

from tradesdk import ConfigError, RetryPolicy
from tradesdk.types import Failure, FailureCause, Operation, RetryAction

from .._rows import each_of

POLICY = RetryPolicy()
AGAIN, LOOKUP, RAISE = RetryAction.AGAIN, RetryAction.LOOKUP, RetryAction.RAISE
COLUMNS = (Operation.READ, Operation.WRITE, Operation.CREATE, Operation.QUERY)

ALWAYS = (AGAIN, AGAIN, AGAIN, AGAIN)
OPEN = (AGAIN, AGAIN, LOOKUP, AGAIN)
NEVER = (RAISE, RAISE, RAISE, RAISE)
SERVER_ERROR = (AGAIN, AGAIN, RAISE, AGAIN)
PRICE_LOGIC = (AGAIN, AGAIN, LOOKUP, RAISE)


def status(code: int, *, service: bool = False) -> Failure:
    return Failure(FailureCause.STATUS, code, {}, service_error=service)


TABLE: dict[str, tuple[Failure, tuple[RetryAction, ...]]] = {
    "not sent": (Failure(FailureCause.NOT_SENT), ALWAYS),
    "hopeless": (Failure(FailureCause.HOPELESS), NEVER),
    "lost": (Failure(FailureCause.LOST), OPEN),
    "429 of the service": (status(429, service=True), ALWAYS),
    "429 of something else": (status(429), ALWAYS),
    "503 of the service": (status(503, service=True), ALWAYS),
    "503 of something else": (status(503), OPEN),
    "502 of something else": (status(502), OPEN),
    "502 of the service": (status(502, service=True), PRICE_LOGIC),
    "504": (status(504), OPEN),
    "504 of the service": (status(504, service=True), OPEN),
    **{f"{code}": (status(code, service=code == 525), OPEN) for code in range(520, 531)},
    "500": (status(500), SERVER_ERROR),
    "500 of the service": (status(500, service=True), SERVER_ERROR),
    **{
        f"{code}{' of the service' if service else ''}": (status(code, service=service), NEVER)
        for code in (
            *(300, 301, 302, 303, 304, 307, 308),
            *(400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 413, 415, 418, 422, 423, 425, 428, 431, 451, 499),
            *(501, 505, 506, 507, 508, 511, 519, 531, 598, 599, 600, 999),
        )
        for service in (False, True)
    },
}


def test_the_table_has_a_column_for_every_operation_and_a_row_for_every_cause() -> None:
    assert set(COLUMNS) == set(Operation)
    assert {failure.cause for failure, _ in TABLE.values()} == set(FailureCause)


@pytest.mark.rule("retry.429", "retry.503", "retry.other-4xx")
@each_of("row", TABLE)
def test_the_first_five_failures_follow_the_table_and_the_sixth_is_raised(row: str) -> None:
    failure, actions = TABLE[row]
    for operation, action in zip(COLUMNS, actions, strict=True):
        assert [POLICY.action(operation, failure, retries) for retries in range(7)] == [action] * 5 + [RAISE] * 2
        assert RetryPolicy(max_retries=0).action(operation, failure, 0) is RAISE


@each_of("operation", COLUMNS)
def test_where_nothing_listens_on_this_machine_there_is_one_retry(operation: Operation) -> None:
    failure = Failure(FailureCause.NOT_SENT, here=True)
    assert [POLICY.action(operation, failure, retries) for retries in range(3)] == [AGAIN, RAISE, RAISE]


@pytest.mark.rule("retry.500")
@each_of("operation", COLUMNS)
@each_of("service", [False, True])
def test_a_500_is_retried_twice_and_a_create_never(operation: Operation, service: bool) -> None:
    failure = status(500, service=service)
    actions = [POLICY.action(operation, failure, count, server_errors=count) for count in range(4)]
    assert actions == ([RAISE] * 4 if operation is Operation.CREATE else [AGAIN, AGAIN, RAISE, RAISE])


def test_the_limit_of_500s_counts_500s_only() -> None:
    assert POLICY.action(Operation.READ, status(500), 4, server_errors=0) is AGAIN
    assert POLICY.action(Operation.READ, status(500), 4, server_errors=2) is RAISE
    assert POLICY.action(Operation.READ, status(503), 4, server_errors=2) is AGAIN


def test_the_limit_of_500s_is_a_setting() -> None:
    none = RetryPolicy(max_server_errors=0)
    assert none.action(Operation.READ, status(500), 0) is RAISE
    assert (
        RetryPolicy(max_server_errors=1).action(Operation.READ, status(500), 0) is AGAIN
    )  # by default it is the first
    many = RetryPolicy(max_server_errors=5)
    assert [many.action(Operation.READ, status(500), n, server_errors=n) for n in (4, 5)] == [AGAIN, RAISE]


@each_of(
    ("failure", "unknown"),
    [
        (Failure(FailureCause.NOT_SENT), False),
        (Failure(FailureCause.HOPELESS), False),
        (Failure(FailureCause.LOST), True),
        (status(500), True),
        (status(500, service=True), True),
        (status(502), True),
        (status(504), True),
        (status(503), True),
        (status(503, service=True), False),
        (status(429), False),
        (status(501), False),
        (status(505), False),
        (status(520), True),  # something in front of the service got no usable answer from it
        (status(524), True),
        *((status(code), False) for code in (301, 400, 401, 402, 403, 404, 408, 409, 422, 425)),
    ],
)
def test_whether_it_may_have_been_carried_out(failure: Failure, unknown: bool) -> None:
    assert failure.outcome_unknown is unknown


def test_whatever_is_looked_for_has_an_unknown_outcome() -> None:
    for failure, actions in TABLE.values():
        if LOOKUP in actions:
            assert failure.outcome_unknown
        if failure.outcome_unknown:  # then a create is never simply sent again
            assert actions[COLUMNS.index(Operation.CREATE)] is not AGAIN


@pytest.mark.rule("retry.five")
@each_of("bad", [-1, 6, 100, float("nan"), 1.5, True, "5"])
def test_more_retries_than_the_service_allows_are_refused(bad: int) -> None:
    with pytest.raises(ConfigError, match="max_retries"):
        RetryPolicy(max_retries=bad)


@each_of("name", ["base", "cap", "jitter", "max_server_wait"])
@each_of("bad", [-0.1, float("nan"), float("inf"), float("-inf"), True, "1"])
def test_settings_that_are_no_durations_are_refused(name: str, bad: float) -> None:
    with pytest.raises(ConfigError, match=name):
        RetryPolicy(**{name: bad})  # type: ignore[arg-type]  # the name is a parameter here


def test_a_negative_limit_of_500s_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_server_errors"):
        RetryPolicy(max_server_errors=-1)


def test_a_policy_is_a_value() -> None:
    assert RetryPolicy() == RetryPolicy(max_retries=5, base=1, cap=60, jitter=0.25, max_server_wait=120)
    assert len({RetryPolicy(), RetryPolicy(), RetryPolicy(max_retries=1)}) == 2
    with pytest.raises(AttributeError):
        RetryPolicy().max_retries = 9  # type: ignore[misc]  # that it is refused is the point
