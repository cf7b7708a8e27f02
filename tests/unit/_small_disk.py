"""A file system of 300 KiB in memory, where the system lets a test mount one."""

import shutil
import subprocess
from pathlib import Path

MOUNT = 'mount -t tmpfs -o size=300k none "$1" && shift && exec "$@"'


def on_a_small_disk(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that has a small disk for itself: nobody else sees it, and it goes with the command."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOUNT, "sh", str(folder), *command],  # noqa: S607 - from the system's path
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )


def possible(folder: Path) -> bool:
    return shutil.which("unshare") is not None and on_a_small_disk(folder, "true").returncode == 0
