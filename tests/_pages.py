"""The README and the pages of the documentation, taken apart into their fenced blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"(?P<indent> *)```(?P<language>\w*)[^`]*")
EXAMPLE = re.compile(r"<!-- example: (?P<path>[^: ]+).*-->")


# Installing needs a package index, and a server that serves until Ctrl-C does not end.
# `.ci/run` runs the first two.
NOT_RUN = {
    'python3 -m venv --upgrade-deps .venv && .venv/bin/pip install -q ".[mock]" && .venv/bin/trade demo',
    'python3 -m venv --upgrade-deps .venv && .venv/bin/pip install -q --no-compile -e ".[test]" && '
    ".venv/bin/pytest -q -n 2 --dist=worksteal",
    'pip install "../tradesdk[mock]"',  # what a wheel gives: tests/test_package.py
    'pip install "dist/tradesdk-0.1.0-py3-none-any.whl[mock]"',
    'pip install ".[mcp]"',
    'pip install ".[fleet]"',
    'pip install ".[otel]" opentelemetry-distro opentelemetry-exporter-otlp',
    "opentelemetry-instrument --service_name my-bot python bot.py",
    "docker run -d --name fleet -p 5432:5432 -e POSTGRES_PASSWORD=change-me postgres:18",
    "export TRADE_FLEET=postgresql://postgres:change-me@localhost:5432/postgres",
    "export TRADE_BASE_URL=http://127.0.0.1:8787 TRADE_API_KEY=mock_full_me",
    "pip wheel -q --no-deps -w dist ../tradesdk",  # these two are run by tests/test_recipes.py, Docker is not
    "echo ./dist/tradesdk-0.1.0-py3-none-any.whl > requirements.txt",
    "docker build -t my-bot .",
    "docker run -d --restart on-failure --env-file bot.env -v bot-state:/state my-bot",
    "docker stop my-bot",
    "python stop_everything.py stop",  # tests/test_recipes.py
    "python stop_everything.py back",
    "trade fleet init",  # these are typed by tests/e2e/test_fleet_recipe.py
    "trade fleet relay --chain base",
    "trade fleet status",
    "trade market prices ETH",
    "trade market prices BRETT",
    "trade signals stream --chain base --group bots",
    "trade signals stream --chain base --group bots --exec 'sleep 5'",
    "trade pay budget set --total 0.05 --yes",
    "trade mock serve",
    "trade login",  # tests/cli/test_login_terminal.py; the next two take half a minute: tests/cli/test_probe.py
    "trade doctor --service --gaps service.json",
    "trade doctor --service --compare service.json",
    "trade mock serve --gaps service.json",  # tests/cli/test_probe.py, test_mock_serve.py
    "pytest --trade-mock-gaps service.json",
    "trade mock serve --seed 7",
    'curl -N -H "Authorization: Bearer mock_full_me" "http://127.0.0.1:8787/v1/signals/stream?chain=8453"',
    "trade mock emit --chain 8453",
    "exec 3< <(exec trade mock serve --port 0 -o ndjson)",
    "read -r said <&3",
    "export TRADE_API_KEY=mock_full_me TRADE_BASE_URL="
    '$(python3 -c \'import json, sys; print(json.loads(sys.argv[1])["url"])\' "$said")',
    "./your-tests",
    "kill $!",
    'curl -H "Content-Type: application/json" -d \'{"advance": 3600}\' http://127.0.0.1:8787/_mock/clock',
}


@dataclass(frozen=True)
class Block:
    """A fenced block: where its text begins in the page, counted from 0, and the text without the page's indent."""

    language: str
    start: int
    lines: list[str]
    indent: str
    example: str  # the file whose code it shows (scripts/examples.py writes it); usually none

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def end(self) -> int:
        return self.start + len(self.lines)


def blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: re.Match[str] | None = None
    start = 0
    for number, line in enumerate(lines):
        fence = FENCE.fullmatch(line)
        if fence is None:
            continue
        if opened is None:
            opened, start = fence, number + 1
        else:
            body = [text.removeprefix(opened["indent"]) for text in lines[start:number]]
            example = EXAMPLE.fullmatch(lines[start - 2])
            yield Block(opened["language"], start, body, opened["indent"], example["path"] if example else "")
            opened = None
    assert opened is None, f"{page.name}: the block in line {start} never ends"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def is_right_below(page: Path, upper: Block, lower: Block) -> bool:
    between = page.read_text(encoding="utf-8").splitlines()[upper.end + 1 : lower.start - 1]
    return not any(line.strip() for line in between)
