"""`trade wallets connect`: who signs which text, and what is said when the service wants another one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from tradesdk import LocalSigner, create_keystore, wallet_message
from tradesdk_mock import GapOptions, MockServer

from .._rows import each_of
from ._terminal import Terminal

KEY = "0x" + "7c" * 32
ADDRESS = LocalSigner.from_key(KEY).address
FORGED = "0x" + "11" * 64 + "1b"
CONNECT = ("wallets", "connect", "--label", "main", "--chain", "base")
TEXT = f"I own {ADDRESS}\r\non chain 8453"


@pytest.fixture
def asking(trade: Terminal) -> Iterator[MockServer]:
    """A service that wants a text of its own."""
    gaps = GapOptions(wallet_message="I own {address}\r\non chain {chain_id}")
    with MockServer(signals="scripted", gaps=gaps) as server:
        trade.env |= {"TRADE_BASE_URL": server.url, "TRADE_API_KEY": "mock_full_me"}
        yield server


@pytest.fixture
def keystore(trade: Terminal, tmp_path: Path) -> Path:
    """A keystore, and its password in a file that the environment names."""
    file, password = tmp_path / "wallet.json", tmp_path / "password"
    create_keystore(file, "correct horse", KEY, work=2)
    password.write_text("correct horse\n")
    password.chmod(0o600)
    trade.env["TRADE_KEYSTORE_PASSWORD_FILE"] = str(password)
    return file


@pytest.mark.rule("wallets.connect")
def test_connect_with_a_key(own: Terminal, server: MockServer) -> None:
    address = ADDRESS
    own.env["TRADE_WALLET_KEY"] = KEY
    dry = own("wallets", "connect", "--label", "main", "--chain", "base", "--dry-run")
    assert dry.json["body"]["address"] == address
    made = own("wallets", "connect", "--label", "main", "--chain", "base", "--address", address.lower(), "--yes").json
    assert (made["address"], made["label"], made["chain_id"]) == (address, "main", 8453)
    again = own("wallets", "connect", "--label", "main", "--chain", "base", "--yes")
    assert (again.code, again.problem["code"]) == (7, "conflict")


@pytest.mark.rule("wallets.connect")
def test_connect_with_a_signature(own: Terminal, server: MockServer) -> None:
    address = ADDRESS
    argv = ("wallets", "connect", "--label", "l", "--chain", "base", "--address", address, "--signature", FORGED, "-y")
    run = own(*argv)
    assert (run.code, run.problem["code"]) == (8, "invalid_signature")
    assert run.notes[0]["body"] == {"address": address, "chain_id": 8453, "label": "l", "signature": "(not shown)"}
    asked = own(*argv[:-1], answers="n\n")
    assert "  signature  (not shown)\n" in asked.err
    assert FORGED not in run.err + asked.err
    assert server.journal(own.env["TRADE_API_KEY"].removeprefix("mock_full_"))[-1].body == {
        "address": address,
        "chain_id": 8453,
        "label": "l",
        "signature": FORGED,
    }


def test_connect_refuses_what_does_not_fit(own: Terminal) -> None:
    own.env["TRADE_WALLET_KEY"] = KEY
    run = own("wallets", "connect", "--label", "l", "--chain", "base", "--address", "0x" + "1" * 40, "--yes")
    assert run.code == 2
    own.env["TRADE_WALLET_KEY"] = "not-a-key"
    run = own("wallets", "connect", "--label", "l", "--chain", "base", "--yes")
    assert run.code == 3
    assert "not-a-key" not in run.err
    assert "the private key must be 64 hexadecimal digits" in run.problem["message"]
    assert run.problem["hint"].startswith("it is 64 hexadecimal digits")


@each_of(
    "named",
    [
        lambda trade, file: trade.env.update(TRADE_KEYSTORE=str(file)),
        lambda trade, file: ("--wallet", str(file)),
        lambda trade, file: file.rename(trade.home / "keystore.json") and None,
    ],
)
def test_a_keystore_signs_as_it_pays(
    trade: Terminal, asking: MockServer, keystore: Path, named: Callable[[Terminal, Path], tuple[str, ...] | None]
) -> None:
    trade.env.pop("TRADE_KEYSTORE", None)
    trade.env["TRADE_API_KEY"] = f"mock_full_{id(named)}"
    argv = (*CONNECT, "--message", TEXT, "--yes", *(named(trade, keystore) or ()))
    dry = trade(*argv, "--dry-run", env={"TRADE_KEYSTORE_PASSWORD_FILE": "/nowhere"})
    assert dry.json["body"]["address"] == ADDRESS, "a dry run asks for no password"
    run = trade(*argv)
    assert (run.code, run.json["address"]) == (0, ADDRESS), run.err


@each_of("ending", ["", "\n", "\r\n"])
@each_of("from_stdin", [True, False])
def test_the_text_of_the_dashboard(
    trade: Terminal, asking: MockServer, tmp_path: Path, ending: str, from_stdin: bool
) -> None:
    """Editors end a file with a line break; all else is signed as it is."""
    asking.reset()
    trade.env["TRADE_WALLET_KEY"] = KEY
    file = tmp_path / "text.txt"
    file.write_bytes((TEXT + ending).encode())
    if from_stdin:
        run = trade(*CONNECT, "--yes", "--message-file", "-", stdin=TEXT + ending)
    else:
        run = trade(*CONNECT, "--yes", "--message-file", str(file))
    assert (run.code, run.json["label"]) == (0, "main"), run.err


def test_what_is_signed_is_shown_before_the_question(trade: Terminal, asking: MockServer) -> None:
    run = trade(*CONNECT, "--message", TEXT, answers="n\n", env={"TRADE_WALLET_KEY": KEY})
    assert f"text to sign  I own {ADDRESS}\\r\\non chain 8453" in run.err
    assert run.code == 1
    long = "".join(f"{number:04} is shown\n" for number in range(2000))
    run = trade(*CONNECT, "--message", long, answers="n\n", env={"TRADE_WALLET_KEY": KEY})
    seen = "".join(line[len("  text to sign  ") :] for line in run.err.splitlines())
    assert all(f"{number:04} is shown\\n" in seen for number in range(2000)), "whole, however long it is"


def test_the_hint_names_the_text_that_was_signed_and_where_another_goes(trade: Terminal, asking: MockServer) -> None:
    trade.env["TRADE_WALLET_KEY"] = KEY
    usual = trade(*CONNECT, "--yes").problem
    assert usual["code"] == "invalid_signature"
    assert f'is "Trade wallet verification\\nAddress: {ADDRESS}\\nChain ID: 8453"' in usual["hint"]
    assert usual["hint"].endswith("save the one that the dashboard shows: --message-file FILE")
    given = trade(*CONNECT, "--yes", "--message", "I own it").problem
    assert given["hint"].startswith('the text that was signed is "I own it": compare it with the dashboard')
    assert "--message" not in given["hint"], "that was just tried"
    signature = Account.sign_message(encode_defunct(text=wallet_message(ADDRESS, 8453)), KEY).signature.hex()
    made = trade(*CONNECT, "--yes", "--address", ADDRESS, "--signature", f"0x{signature}").problem
    assert made["hint"].startswith("sign exactly the text that the dashboard shows")
    assert "with --signature" not in made["hint"]


@each_of(
    ("argv", "message"),
    [
        (("--message", "a", "--message-file", "b"), "--message and --message-file exclude each other"),
        (("--message", ""), "--message is empty"),
        (("--message-file", "/nowhere/x"), "cannot read /nowhere/x: No such file or directory"),
        (("--message-file", "-"), "- is empty"),
        (("--message", "a", "--signature", FORGED, "--address", ADDRESS), "--message has no effect with"),
        (("--wallet", "a", "--signature", FORGED, "--address", ADDRESS), "--wallet has no effect with"),
        (("--signature", FORGED), "--signature needs --address"),
        ((), "nothing proves that the wallet is yours"),
    ],
)
def test_what_does_not_go_together(own: Terminal, argv: tuple[str, ...], message: str) -> None:
    run = own(*CONNECT, "--yes", *argv)
    assert (run.code, run.problem["message"][: len(message)]) == (2, message)
    assert run.problem["hint"]


@pytest.mark.usefixtures("worlds")
def test_a_mock_world_has_a_wallet_of_its_own(trade: Terminal, keystore: Path) -> None:
    keystore.rename(trade.home / "keystore.json")
    play = trade("--mock", *CONNECT, "--yes").json["address"]
    assert play != ADDRESS
    assert trade("--mock", *CONNECT, "--yes", env={"TRADE_WALLET_KEY": KEY}).json["address"] == ADDRESS
