"""What the extra `mock` adds to an installation: MiB of site-packages in fresh environments, compiled code included.

Without the extra, the mock still works in process; the extra serves it on a port.
"""

import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import finish, verdict
from _mocks import prism

ROOT = Path(__file__).resolve().parent.parent
BAR = 10.0
CORE, EXTRA, MOTO = "tradesdk", "tradesdk[mock]", "moto[server]"
WANTED = {
    "an empty environment": [],
    CORE: [str(ROOT)],
    EXTRA: [f"{ROOT}[mock]"],
    MOTO: ["moto[server]"],
}
WITHOUT_EXTRA = """
import sys, httpx
from tradesdk_mock import MockService

with MockService() as mock, httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
    answer = http.get("/v1/account", headers={"Authorization": "Bearer mock_full_me"})
assert answer.status_code == 200, answer
try:
    import uvicorn
except ModuleNotFoundError:
    print("without the extra: MockService answers in process; uvicorn is not installed")
"""


def mib(folder: Path) -> float:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


def install(folder: Path, packages: list[str]) -> Path:
    """A new environment with these packages; its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    if packages:
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True, stderr=subprocess.DEVNULL)
    return python


with tempfile.TemporaryDirectory() as home:
    weights: dict[str, float] = {}
    for number, (name, packages) in enumerate(WANTED.items()):
        python = install(Path(home) / str(number), packages)
        [site] = (Path(home) / str(number)).glob("lib/python*/site-packages")
        weights[name] = mib(site) - weights.get("an empty environment", 0.0)
        if name == CORE:
            said = subprocess.run([str(python), "-c", WITHOUT_EXTRA], check=True, capture_output=True, text=True).stdout
            assert said, "uvicorn came with the core"

del weights["an empty environment"]
node = prism()
if node is not None:
    weights["Prism, its node_modules without node"] = mib(node.parent.parent)
extra = weights[EXTRA] - weights[CORE]
print(f"Weight; Python {sys.version.split()[0]}, tradesdk {importlib.metadata.version('tradesdk')}\n")
width = max(map(len, weights))
for name, weight in weights.items():
    print(f"{name:{width}}  {weight:6.1f} MiB")
print(f"\n{said}", end="")
finish(verdict(extra <= BAR, f"the extra adds {extra:.1f} MiB  (bar {BAR:g})"))
