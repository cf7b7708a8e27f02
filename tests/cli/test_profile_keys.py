"""The key that a profile keeps goes where the profile says, and nowhere else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tradesdk_cli.config.settings import Settings, resolve

from .._rows import each_of
from ._services import Scripted
from ._settings import configured, files
from ._terminal import Terminal

ACCOUNT = {"id": "acc_1", "email": "me@example.test", "plan": "pro", "created_at": 1, "api_key_last4": "1234"}
KEPT = '[profiles.work]\nbase_url = "{url}"\nkey = "file"\n'


def kept(trade: Terminal, url: str, key: str = "KEPT-KEY") -> Path:
    configured(trade, 'profile = "work"\n' + KEPT.format(url=url))
    (trade.home / "keys").mkdir(mode=0o700, exist_ok=True)
    file = trade.home / "keys" / "work"
    file.write_text(f"{key}\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def profiled(trade: Terminal, service: Scripted) -> Terminal:
    """`trade` whose profile has the address and the key."""
    kept(trade, service.url)
    del trade.env["TRADE_BASE_URL"], trade.env["TRADE_API_KEY"]
    service.says(200, ACCOUNT)
    return trade


def test_the_key_of_a_profile_is_sent_where_the_profile_says(profiled: Terminal, service: Scripted) -> None:
    run = profiled("account", "show", "-vv", "-o", "table")
    assert run.code == 0
    assert service.keys == ["Bearer KEPT-KEY"]
    assert (
        f"the service is {service.url} (profile work), "
        f"the key is from profile work ({profiled.home / 'keys' / 'work'})" in run.err
    )
    assert "KEPT-KEY" not in run.out + run.err


@pytest.mark.parametrize("how", ["flag", "environment", "flag profile"])
def test_the_key_of_a_profile_is_not_sent_elsewhere(profiled: Terminal, service: Scripted, how: str) -> None:
    elsewhere = service.url.replace("127.0.0.1", "localhost")
    argv = ["account", "show"]
    if how == "flag":
        argv += ["--base-url", elsewhere]
    else:
        profiled.env["TRADE_BASE_URL"] = elsewhere
        argv += ["--profile", "work"] if how == "flag profile" else []
    for form in ("json", "table"):
        run = profiled(*argv, "-o", form, "-vv")
        assert run.code == 3
        assert "profile work is not sent to localhost" in run.err
        assert ("--base-url" if how == "flag" else "TRADE_BASE_URL") in run.err
        assert "KEPT" not in run.out + run.err
    assert service.seen == []


def test_it_is_sent_to_the_same_place_whoever_names_it(profiled: Terminal, service: Scripted) -> None:
    port = service.url.rpartition(":")[2]
    assert profiled("account", "show", "--base-url", f"{service.url}/v1/").code == 0
    assert profiled("account", "show", env={"TRADE_BASE_URL": f"HTTP://127.0.0.1.:0{port}"}).code == 0
    config = profiled.home / "config.toml"
    config.write_text(config.read_text().replace(service.url, f"http://LocalHost.:{port}/"))
    assert profiled("account", "show", env={"TRADE_BASE_URL": f"http://localhost:{port}"}).code == 0
    assert service.keys == ["Bearer KEPT-KEY"] * 3


def test_a_key_that_is_brought_along_goes_anywhere(profiled: Terminal, service: Scripted) -> None:
    elsewhere = service.url.replace("127.0.0.1", "localhost")
    assert profiled("account", "show", env={"TRADE_BASE_URL": elsewhere, "TRADE_API_KEY": "OWN"}).code == 0
    assert service.keys == ["Bearer OWN"]


def test_a_project_cannot_have_the_key_sent_elsewhere(
    profiled: Terminal, service: Scripted, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path_factory.mktemp("project")
    monkeypatch.chdir(project)
    for text in (f'base_url = "{service.url}"\n', f'[profiles.work]\nbase_url = "{service.url}"\n', 'key = "file"\n'):
        (project / ".trade.toml").write_text(text)
        run = profiled("account", "show")
        what = "has profiles, which is not a setting there" if "[" in text else "a project sets only profile, mock, out"
        assert (run.code, what in run.problem["message"]) == (3, True)
    assert service.seen == []


def test_a_project_cannot_choose_where_the_key_of_the_environment_goes(
    profiled: Terminal, service: Scripted, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may name a profile, but the key of the environment is for the usual one's service."""
    project = tmp_path_factory.mktemp("project")
    monkeypatch.chdir(project)
    config = profiled.home / "config.toml"
    usual = config.read_text()
    config.write_text(
        usual.replace(service.url, "https://usual.example") + f'[profiles.other]\nbase_url = "{service.url}"\n'
    )
    (project / ".trade.toml").write_text('profile = "other"\n')
    brought = {"TRADE_API_KEY": "BROUGHT"}
    for argv in (("account", "show"), ("agents", "delete", "agt_1", "--yes"), ("whoami",)):
        run = profiled(*argv, env=brought)
        assert run.code == 3
        assert "TRADE_API_KEY is not sent to 127.0.0.1" in run.problem["message"]
        assert "--profile other (or TRADE_PROFILE=other)" in run.problem["hint"]
    market = ("market", "prices", "A", "--send-api-key", "--max-price", "0.03")
    assert profiled(*market, env=brought).code == 3
    assert service.seen == []
    assert profiled("account", "show", "--profile", "other", env=brought).code == 0
    assert profiled("account", "show", env=brought | {"TRADE_PROFILE": "other"}).code == 0
    config.write_text(usual + f'[profiles.other]\nbase_url = "{service.url}"\n')
    assert profiled("account", "show", env=brought).code == 0, "where it would go anyway"


def test_market_data_gets_the_key_where_the_profile_says_only(profiled: Terminal, service: Scripted) -> None:
    elsewhere = service.url.replace("127.0.0.1", "localhost")
    argv = ("market", "prices", "ETH", "--send-api-key", "--max-price", "0.03")
    run = profiled(*argv, env={"TRADE_MARKET_BASE_URL": elsewhere})
    assert run.code == 3
    assert "TRADE_MARKET_BASE_URL" in run.problem["message"]
    assert service.seen == []
    profiled(*argv)
    assert service.keys == ["Bearer KEPT-KEY"]


@pytest.mark.usefixtures("worlds")
def test_the_mock_does_not_get_the_key_of_a_profile(profiled: Terminal) -> None:
    (profiled.home / "keys" / "work").chmod(0o644)  # it is not even read
    assert profiled("--mock", "account", "show").json["email"] == "me@example.test"


def put(file: Path, content: bytes = b"KEPT-KEY", mode: int = 0o600) -> None:
    file.write_bytes(content)
    file.chmod(mode)


@each_of(
    ("put_there", "said"),
    [
        *((lambda file, mode=mode: put(file, mode=mode), f"(mode 0{mode:o})") for mode in (0o640, 0o604, 0o660, 0o620)),
        (lambda file: file.mkdir(), "is not a file"),
        (lambda file: os.mkfifo(file, 0o600), "is not a file"),
        (lambda file: put(file, b"\xff\n"), "is not text in UTF-8"),
        (lambda file: put(file, b"two words"), "API key contains"),
        (lambda file: put(file, b"\n\n"), "and there is none"),
        (lambda file: None, "and there is none"),
    ],
)
def test_a_key_that_others_could_have_read_or_put_there_is_not_sent(
    profiled: Terminal, service: Scripted, put_there: Callable[[Path], object], said: str
) -> None:
    file = profiled.home / "keys" / "work"
    file.rmdir() if file.is_dir() else file.unlink(missing_ok=True)
    put_there(file)
    run = profiled("account", "show")
    assert (run.code, said in run.problem["message"]) == (3, True), run.err
    if "there is none" in said:
        assert run.problem["hint"] == "save it again: trade login --profile work"
    if "mode" in said:
        assert run.problem["hint"].startswith(f"chmod 600 {file}; they may have read it: then make a new key")
    assert service.seen == []


def test_a_key_of_somebody_else_is_not_sent(
    profiled: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    inode = (profiled.home / "keys" / "work").stat().st_ino
    monkeypatch.setattr("tradesdk._local.files.SettingsFile.is_foreign", lambda found: found.st_ino == inode)
    run = profiled("account", "show")
    assert (run.code, "keys/work belongs to somebody else" in run.problem["message"]) == (3, True)
    assert service.seen == []


def test_a_key_behind_a_link_is_read_there_and_never_written_there(profiled: Terminal, service: Scripted) -> None:
    file, elsewhere = profiled.home / "keys" / "work", profiled.home / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert profiled("account", "show").code == 0
    assert profiled("login", "--api-key-stdin", "--yes", stdin="another").code == 0
    assert (file.read_text(), elsewhere.read_text()) == ("another\n", "KEPT-KEY\n")


def test_the_key_is_in_no_repr() -> None:
    settings: Settings = resolve({}, {"TRADE_API_KEY": "MARKED"}, files(work={"key": "file"}))
    assert "MARKED" not in repr(settings)


@pytest.mark.parametrize("status", [200, 401, 403, 500])
def test_a_kept_key_is_nowhere_to_be_seen(profiled: Terminal, service: Scripted, status: int) -> None:
    service.says(status, {"error": {"code": "code", "message": "your key is KEPT-KEY"}} if status > 200 else ACCOUNT)
    for argv in (("account", "show"), ("whoami",), ("config", "list", "--sources"), ("logout",)):
        run = profiled(*argv, "--debug", "--curl", "-vv", "-o", "table")
        assert "KEPT-KEY" not in run.out + run.err, argv
    assert set(service.keys) == {"Bearer KEPT-KEY"}
