"""Tables that are one test: every row is played, and what fails says in which row."""

import anyio.lowlevel
import pytest

from .._rows import each_of

played: list[int] = []


@each_of(("number", "most"), [(1, 0), (2, 5), pytest.param(3, 0, id="the third"), (10**5_000, 0)])
def small(number: int, most: int) -> None:
    played.append(number)
    assert number <= most


def test_what_fails_is_named() -> None:
    with pytest.raises(BaseExceptionGroup, match="3 of 4 rows") as caught:
        small()
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in the row 0: (1, 0)"],
        ["in the row the third: (3, 0)"],
        ["in the row 3"],
    ]
    assert len(played) == 4


@each_of("error", [KeyError, pytest.fail.Exception])
def test_what_is_raised(error: type[BaseException], tmp_path_factory: pytest.TempPathFactory) -> None:
    """By one row alone it is raised as it is; fixtures are not arguments of a row."""
    assert tmp_path_factory.getbasetemp().is_dir()

    @each_of("value", [error("x"), None])
    def raising(value: BaseException | None) -> None:
        if value is not None:
            raise value

    with pytest.raises(error):
        raising()


@each_of("number", [1, 2, 3])
async def waiting(number: int) -> None:
    await anyio.lowlevel.checkpoint()
    played.append(-number)
    assert number == 2


async def test_rows_that_wait() -> None:
    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows") as caught:
        await waiting()
    assert [error.__notes__ for error in caught.value.exceptions] == [["in the row 0: (1,)"], ["in the row 2: (3,)"]]
    assert played[-3:] == [-1, -2, -3]


def test_a_row_that_skips_hides_no_other() -> None:
    @each_of("skips", [False, True])
    def rows(skips: bool) -> None:
        if skips:
            pytest.skip("not here")
        raise KeyError

    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows"):
        rows()
