"""What pages list is what there is: public names, options and faults of the mock, codes of payments."""

import re
from types import ModuleType

import pytest

import tradesdk
import tradesdk.errors
import tradesdk_mock
from tradesdk_mock import GapOptions, fault_kinds

from ._pages import ROOT

SDK = ROOT / "src" / "tradesdk"


@pytest.mark.parametrize("package", [tradesdk, tradesdk_mock], ids=lambda package: package.__name__)
def test_every_public_name_is_in_the_reference(package: ModuleType) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"(?m)^::: (\S+)$", text))
    shown |= {f"tradesdk.{name}" for name in vars(tradesdk.errors)} if "tradesdk.errors" in shown else set()
    names = {f"{package.__name__}.{name}" for name in dir(package) if name != "__version__"}
    assert names - shown == set()


def test_the_table_of_gap_options_agrees_with_the_mock() -> None:
    page = (ROOT / "docs" / "reference" / "mock.md").read_text(encoding="utf-8")
    rows = [
        f"| `{gap.name}` | `{gap.default}` | {', '.join(f'`{other}`' for other in gap.others)} | {gap.text} |"
        for gap in GapOptions.describe()
    ]
    assert re.findall(r"(?m)^\| `.*$", page) == rows


def test_the_table_of_faults_agrees_with_the_mock() -> None:
    page = (ROOT / "docs" / "mock.md").read_text(encoding="utf-8")
    rows = []
    for kind in fault_kinds():
        parameters = ", ".join(f"`{one.name}`" for one in kind.parameters)
        rows.append(f"| `{kind.name}` | {kind.on} | {kind.text} | {parameters} |")
    table = page[page.index("| Kind |") : page.index("Resets, broken chunks")]
    assert re.findall(r"(?m)^\| `.*$", table) == rows


def test_every_code_of_a_payment_is_explained() -> None:
    """The page says of each of them what happened to the money."""
    rooms = [*(SDK / "payments").rglob("*.py"), SDK / "_async/payment_flow.py", SDK / "_async/payment_history.py"]
    source = "\n".join(room.read_text(encoding="utf-8") for room in rooms)
    codes = set(re.findall(r'(?:\bcode=|_Refusal\(\s*\d+,\s*|\brefused\(|_error\(\s*)"([a-z_]+)"', source))
    assert len(codes) > 40
    page = (ROOT / "docs" / "payments.md").read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"(?m)^\|.*$", page))
    assert {code for code in codes if f"`{code}`" not in rows} == set()
