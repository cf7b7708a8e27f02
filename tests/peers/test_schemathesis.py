"""schemathesis reads the mock's OpenAPI description and asks a running mock whether all of it is true.

It makes requests that the description allows, and others that it forbids, and looks at every answer: status, headers,
content type, body; that what is forbidden is refused and what is allowed isn't; that nothing can be done without a key;
that what was created is there, and gone once it is deleted. `programs/schemathesis.toml` has the settings.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tradesdk_mock import GapOptions, MockServer
from tradesdk_mock.api.openapi import document

from .._seeds import one_of
from .environments import HERE

pytestmark = pytest.mark.peers
SECONDS = 600


@pytest.fixture(params=one_of(["open", "closed"]))
def mock(request: pytest.FixtureRequest) -> Iterator[MockServer]:
    """A mock without or with its paywall (scripts/peers: both), that never says "too many"."""
    gaps = GapOptions(paywall=request.param, enterprise_limit=10**9, quotas="enterprise=1000000/1000000")
    with MockServer(seed=7, gaps=gaps, first_within=0) as running:
        # A stream has no end of its own, and who looks at an answer needs one.
        running.add_fault("drop", route="/v1/signals/stream", after=1, how="clean")
        yield running


def known(mock: MockServer, key: str) -> dict[str, object]:
    """What a request must be about to succeed."""
    with httpx.Client(
        base_url=mock.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=60
    ) as http:
        wallets = http.get("/v1/wallets").json()["data"]
        tokens = http.post("/v1/supported-tokens", json={"limit": 50}).json()["data"]["tokens"]
    return {
        "wallets": [{"wallet_id": each["id"], "chain_id": each["chain_id"]} for each in wallets],
        "tokens": [each["symbol"] for each in tokens],
    }


def test_schemathesis_finds_nothing(mock: MockServer, environment: Callable[[str], Path], tmp_path: Path) -> None:
    home = environment("schemathesis")
    key = mock.create_key(name="schemathesis", scope="full-access", plan="enterprise", tenant="asked").value
    mock.populate("asked")
    programs = HERE / "programs"
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [
            home / "bin" / "st",
            "--config-file",
            programs / "schemathesis.toml",
            "run",
            f"{mock.url}/openapi.json",
            "--no-color",
            "--header",
            f"Authorization: Bearer {key}",
        ],
        cwd=tmp_path,
        env={
            **surroundings,
            "TRADE_KNOWN": json.dumps(known(mock, key)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(programs),
            "HOME": str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path),
            "NO_PROXY": "127.0.0.1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = [
        (path, method, operation)
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
        if method in ("get", "post", "put", "patch", "delete")
    ]
    assert f"Tested: {len(wanted)}" in done.stdout
    assert (succeeded(mock) ^ {(method.upper(), path) for path, method, _ in wanted}) == set()
    if mock.gaps.paywall == "closed":
        settled = mock.payments.settlements()
        assert {each.path for each in settled} == {path for path, _, each in wanted if "402" in each["responses"]}


def succeeded(mock: MockServer) -> set[tuple[str, str]]:
    """Method and path, as the description writes it, of what was answered with success."""
    patterns = {path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in document()["paths"]}
    return {
        (entry.method, path)
        for entry in mock.journal()
        for path, pattern in patterns.items()
        if entry.status < 300 and pattern.fullmatch(entry.path)
    }
