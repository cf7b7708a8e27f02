"""Lists as Parquet files, with the columns and types of the SDK's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import ConfigProblem, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tradesdk_cli.output.printer import Output


def refuse_unusable(out: Output, names: Iterable[str]) -> None:
    """Checks before anything is sent that a Parquet file with columns of these `names` can be written.

    Raises:
        UsageProblem: an option that does not go with Parquet, or no such column.
        ConfigProblem: pyarrow is not installed.
    """
    if out.asks:
        raise UsageProblem("--query cannot be used with a .parquet file", "use --fields, or another ending")
    out.expect_fields(names)
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError:
        hint = "pip install 'tradesdk[frames]'"
        raise ConfigProblem("a .parquet file needs pyarrow, which is not installed", hint) from None


def write_list(out: Output, model: type[Any], pages: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Writes a list and says `empty` when there is nothing in it."""
    from io import BytesIO

    import pyarrow.parquet

    from tradesdk import arrow_table

    with out.result() as told:
        table = arrow_table(model, [item for page in pages for item in page])
        told.items = table.num_rows
        content = BytesIO()
        pyarrow.parquet.write_table(table.select(out.fields or table.column_names), content)
        out.write_bytes(content.getvalue())
    if not told.items:
        out.note(empty)
