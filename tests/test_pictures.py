"""The pictures of the scenarios are what the mock's market does now, and can be read."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tradesdk_mock import SCENARIOS

from ._pages import ROOT

pytestmark = pytest.mark.long

SCRIPT = ROOT / "scripts" / "pictures.py"
FOLDER = ROOT / "docs" / "assets" / "scenarios"
SVG = "{http://www.w3.org/2000/svg}"


def test_they_are_current(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(SCRIPT), "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_is_on_one(scenario: str) -> None:
    """Both lines inside the frame, prices on both sides, dates below."""
    file = FOLDER / f"{scenario}.svg"
    assert file.stat().st_size < 30_000
    picture = ElementTree.parse(file).getroot()  # noqa: S314 - the file is this repository's own
    _, _, width, height = (float(number) for number in picture.attrib["viewBox"].split())
    texts = [(element.attrib["text-anchor"], element.text or "") for element in picture.iter(f"{SVG}text")]
    left = [float(text) for anchor, text in texts if anchor == "end" and text[0].isdigit()]
    right = [float(text.replace(",", "")) for anchor, text in texts if anchor == "start" and text[0].isdigit()]
    for prices in (left, right):
        assert prices == sorted(set(prices))
        assert 2 <= len(prices) <= 9
    assert [text for anchor, text in texts if anchor == "middle"] == [
        "16 Jan 2027",
        "21 Jan",
        "26 Jan",
        "31 Jan",
        "5 Feb",
        "10 Feb",
    ]
    lines = list(picture.iter(f"{SVG}polyline"))
    assert len(lines) == 2
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        assert len(points) > 300
        assert points == sorted(points, key=lambda point: point[0])
        assert all(0 < x < width and 0 < y < height for x, y in points)
    assert scenario in (picture.findtext(f"{SVG}title") or "")


def test_one_that_is_not_current_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = loaded()
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    monkeypatch.setattr(script, "drawn", lambda scenario: f"<svg>{scenario}</svg>\n")
    names = [f"{scenario}.svg" for scenario in SCENARIOS]

    def run(*options: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
        code = script.main()
        said = capsys.readouterr()
        return code, said.out + said.err

    code, said = run("--check")
    assert code == 1
    assert all(name in said for name in names)
    assert list(tmp_path.iterdir()) == []

    assert run()[0] == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(names)
    assert run("--check") == (0, "")
    assert run() == (0, "")

    (tmp_path / "crash.svg").write_text("<svg>before</svg>\n")
    (tmp_path / "gone.svg").write_text("<svg>a scenario that was</svg>\n")
    code, said = run("--check")
    assert code == 1
    assert re.findall(r"(\w+\.svg);", said) == ["crash.svg", "gone.svg"]
    run()
    assert run("--check") == (0, "")
    assert not (tmp_path / "gone.svg").exists()


def test_round_numbers_at_the_sides() -> None:
    script = loaded()
    assert script.ticks(0.052, 0.091) == pytest.approx([0.06, 0.07, 0.08, 0.09])
    assert script.ticks(2400, 4100) == pytest.approx([2500, 3000, 3500, 4000])
    assert [script.label(value) for value in (3000.0, 41.6, 0.0625, 0.06000000001)] == [
        "3,000",
        "41.6",
        "0.0625",
        "0.06",
    ]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
