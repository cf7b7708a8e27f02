"""Answers nested so deeply that reading them carelessly would end the process.

Importing eth-account raises the interpreter's recursion limit to 100,000 (a library below it does so), and from then on
the standard JSON parser overflows the stack instead of raising RecursionError. Each test has a process of its own.
"""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
import httpx
from tradesdk import APIError, LocalSigner, TradeClient

LocalSigner.from_key("0x" + "1d" * 32)

def ask(status, nested):
    transport = httpx.MockTransport(lambda request: httpx.Response(status, content=nested * 60_000))
    with httpx.Client(transport=transport) as http:
        client = TradeClient(api_key="k", base_url="https://service.example", max_retries=0, http_client=http)
        try:
            client.account.get()
        except APIError as error:
            print(type(error).__name__)
        try:
            client.request("GET", "/v1/account").json()
        except (APIError, ValueError) as error:
            print("refused")

threading.stack_size(1 << 20)
for nested in (b"[", b'{"error":', b'[{"a":'):
    thread = threading.Thread(target=ask, args=(int(sys.argv[1]), nested))
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize(
    ("status", "error"), [(200, "APIResponseError"), pytest.param(404, "NotFoundError", marks=pytest.mark.long)]
)
def test_a_deeply_nested_answer_is_an_error_and_no_crash(status: int, error: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(status)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)  # the program above
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [error, "refused"] * 3, "")
