"""`trade login`: saves an API key in a profile for later commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.run import Run, run_of
from tradesdk_cli.text import bare_key

_USE = "use it with --profile {name}, or always: trade config set profile {name}"
app = Verbs(run_of)


@app.verb("login", "trade login --profile work --api-key-stdin < key.txt", "trade login --mock --profile paper")
def login(
    ctx: typer.Context,
    api_key_stdin: Annotated[
        bool, typer.Option("--api-key-stdin", help="Read the API key from standard input.")
    ] = False,
    keyring: Annotated[
        bool | None, typer.Option("--keyring/--file", help="Save the key in the system's keyring, or in a file.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Test the key before it is saved.", show_default=False)
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace an existing login without asking.")] = False,
) -> None:
    """Save an API key for later commands.

    Asks for the service's address, unless --base-url names it, and for the key, which is not shown; in a script,
    --api-key-stdin reads the key from a pipe. Tests the key with one request, then saves it in a file that only you can
    read, or with --keyring in the system's keyring. Address and key are a profile, named with --profile; the first one
    is the default. With --mock the profile is a mock world and needs no key.
    """

    store = None if keyring is None else "keyring" if keyring else "file"
    with run_of(ctx, new_profile=True) as run:
        account = ("email", "plan", "api_key_last4")
        run.out.selection.expect("profile", "kind", "world", "base_url", *account, "key_kept_in", "default")
        name = run.settings.profile or "default"
        for other in run.settings.saved.tables:
            if other != name and other.lower() == name.lower():
                same = f"the profile {other} exists already, and some systems treat {name} as the same file"
                raise UsageProblem(same, f"trade login --profile {other}, or another name")
        if run.settings.mock:
            _as_mock(run, name, yes=yes)
        else:
            _as_user(run, name, store, piped=api_key_stdin, verify=verify, yes=yes)


def _as_mock(run: Run, name: str, *, yes: bool) -> None:
    from tradesdk_cli.confirm import agree

    table = run.settings.saved.tables.get(name, {})
    if table and table.get("kind") != "mock":
        raise UsageProblem(
            f"the profile {name} is for a service, not for a mock",
            "name another one: trade login --mock --profile paper",
        )
    if table and table.get("world", "default") != run.settings.world:
        agree(f"make profile {name} the mock world {run.settings.world}", yes=yes)
    values = {"kind": "mock", "world": run.settings.world}
    with _locked_writer(run, name) as write:
        default = write(values)
    run.out.one({"profile": name, **values, "default": default})
    source = run.settings.sources["mock"]
    if not source.startswith("flag"):
        run.out.note(f"it is a mock because of {source}; for a service: trade login --no-mock --profile work")
    if default:
        note_mock_removal(run, name)
    else:
        run.out.note(_USE.format(name=name))


def _as_user(run: Run, name: str, store: str | None, *, piped: bool, verify: bool, yes: bool) -> None:
    from tradesdk import APIError, AuthenticationError
    from tradesdk.local import host_of
    from tradesdk_cli.config.credentials import key_store, remove_key, save_key
    from tradesdk_cli.confirm import agree

    settings = run.settings
    table = settings.saved.tables.get(name, {})
    if table.get("kind") == "mock":
        raise UsageProblem(f"the profile {name} is a mock", "name another one: trade login --profile work")
    before = table.get("key")
    store = str(store or before or "file")
    base_url = _address(run, table)
    if before is not None:
        where = host_of(str(table.get("base_url") or base_url))
        agree(f"replace the login of profile {name} at {where}", yes=yes)
    if store == "keyring":  # before the key is typed
        with key_store(settings).keyring():
            pass
    key = _key(run, base_url, piped=piped)
    client, account = run.connect(base_url, key), {}
    if verify:
        try:
            found = client.account.get()
        except APIError as error:
            untried = "" if isinstance(error, AuthenticationError) else "; --no-verify saves a key without a test"
            run.out.note(f"nothing was saved{untried}")
            raise
        account = {"email": found.email, "plan": found.plan, "api_key_last4": found.api_key_last4[-4:]}
    with _locked_writer(run, name) as write:
        save_key(settings, name, store, key)
        try:
            default = write({"base_url": base_url, "key": store})
        except BaseException:
            if before != store:
                remove_key(settings, name, store)
            raise
        if before is not None and before != store:
            remove_key(settings, name, before)
    shown = {"profile": name, "base_url": base_url}
    run.out.one({**shown, **account, "key_kept_in": key_store(settings).where(name, store), "default": default})
    if not verify:
        run.out.note("the key was saved without a test; to test it: trade whoami")
    if not default:
        run.out.note(_USE.format(name=name))
    for variable in ("TRADE_API_KEY", "TRADE_BASE_URL"):
        if os.environ.get(variable):
            run.out.note(f"{variable} is set and takes precedence over the saved login: unset {variable}")


def _address(run: Run, table: Mapping[str, Any]) -> str:
    """The address: of the flag, the profile, the environment, or the prompt.

    It is checked before the key is read. At the prompt, a wrong address is asked for again.
    """
    from tradesdk import ConfigError
    from tradesdk_cli.confirm import can_ask
    from tradesdk_cli.explain import problem_of

    settings = run.settings
    by_flag = settings.sources["base_url"].startswith("flag")
    found = settings.base_url if by_flag else table.get("base_url") or settings.base_url
    if found:
        return run.connect(found, "none-yet").base_url
    while can_ask():
        print("address of the service, such as https://api.example.com: ", end="", file=sys.stderr, flush=True)
        typed = sys.stdin.readline()
        if not typed.strip():
            break
        try:
            return run.connect(typed.strip(), "none-yet").base_url
        except (ConfigError, ConfigProblem) as error:
            run.out.note(problem_of(error).message)
    raise ConfigProblem(
        "no address to log in to: add --base-url", "without an account, try the mock: trade login --mock"
    )


def _key(run: Run, base_url: str, *, piped: bool) -> str:
    from tradesdk.local import host_of
    from tradesdk_cli.wallet import can_hide, hidden

    if piped and sys.stdin.isatty():
        example = "for example: pass show trade | trade login --api-key-stdin"
        raise UsageProblem("--api-key-stdin reads from a pipe, not from a terminal", example)
    if piped:
        if key := bare_key(sys.stdin.readline()):
            return key
        raise ConfigProblem("standard input held no API key", "its first line is the key")
    if not can_hide():
        raise ConfigProblem(
            "there is no terminal to ask for the key on", "read it from a pipe: trade login --api-key-stdin < FILE"
        )
    run.out.note("keys are made in the dashboard, Settings, API Keys")
    key = bare_key(hidden(f"API key for {host_of(base_url)}: "))
    if not key:
        raise ConfigProblem("no key was entered; nothing was saved", "run it again")
    return key


@contextmanager
def _locked_writer(run: Run, name: str) -> Iterator[Callable[[dict[str, Any]], bool]]:
    """Holds the lock against other logins, and yields a function that writes the profile.

    The function returns True for the default profile; the first profile becomes that. Key and address belong together,
    so it fails when the profile has changed since the confirmation.
    """
    from tradesdk_cli.config.files import changing

    saved = run.settings.saved
    with changing(run.settings.config_folder() / "config.toml") as (now, put):
        if now.get("profiles", {}).get(name, {}) != saved.tables.get(name, {}):
            raise ConfigProblem(
                f"another command has changed profile {name} meanwhile; nothing was saved", "run it again"
            )

        def write(values: dict[str, Any]) -> bool:
            first = "profile" not in now and not now.get("profiles")
            if first:
                put((), {"profile": name})
            put(("profiles", name), values)
            return first or now.get("profile", "default") == name

        yield write


def note_mock_removal(run: Run, name: str) -> None:
    """Prints how to turn a mock profile into one for a service."""
    run.out.note(f"profile {name} is a mock world; to remove the mock: trade config unset kind --profile {name}")
