"""`trade doctor`: checks settings, keys, service, wallet and ledger, with next steps."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.cli.params import Yes
from tradesdk_cli.errors import SERVER, ConfigProblem, UsageProblem
from tradesdk_cli.files import PartialFile, atomic_write, file_errors
from tradesdk_cli.run import Run, run_of, run_with
from tradesdk_cli.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tradesdk import ConfigError
    from tradesdk_cli.config.settings import Settings

app = Verbs(run_of)


@dataclass(frozen=True)
class Probing:
    """The options of --service."""

    write: Annotated[
        bool, typer.Option("--write", help="With --service: also make an agent, change it, and delete it.")
    ] = False
    pay: Annotated[
        str | None,
        typer.Option(metavar="USD", help="With --service: also buy the cheapest data, for at most this much."),
    ] = None
    gaps: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --service: write the mock's options to FILE, as JSON."),
    ] = None
    compare: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --service: print only what differs from the options in FILE."),
    ] = None
    yes: Yes = False


@app.verb("doctor", "trade doctor", "trade --mock doctor -o json")
def doctor(
    ctx: typer.Context,
    *,
    service: Annotated[
        bool, typer.Option("--service", help="Check instead how the service behaves; read-only, at most 35 s.")
    ] = False,
    probing: Probing,
) -> None:
    """Check settings, key, services, wallet and ledger.

    Settings and their sources, proxies, both APIs, the API key and its account, the clock, wallet, ledger and budget,
    the fleet, and the MCP server. Changes nothing and pays nothing. Exit code 0: no problem (warnings allowed); 3: a
    setting is wrong; 1: another problem.

    With --service, print a table: rules of the specification that the service breaks, then differences from the mock's
    default behavior (with -v: all points), and the options that make the mock behave the same (trade mock serve --gaps
    FILE). --write and --pay ask first. Exit code 0: no rule is broken, and with --compare nothing differs; else 10.
    """
    if service:
        raise typer.Exit(_probe(ctx, probing))
    if probing != Probing():
        raise UsageProblem("--write, --pay, --gaps, --compare and --yes need --service", "trade doctor --service")
    from tradesdk_cli.health import examine, exit_code, show
    from tradesdk_cli.output.columns import DOCTOR

    chosen, broken = _settings(ctx.obj, os.environ)
    with run_with(ctx, chosen) as run:
        findings = examine(run, broken)
        if run.out.draws(many=True):
            show(run.out, findings)
        else:
            run.out.many(DOCTOR, [[one.as_dict() for one in findings]], empty="nothing to check")
    raise typer.Exit(exit_code(findings))


def _probe(ctx: typer.Context, probing: Probing) -> int:
    """Probes the service, prints its behavior, and saves it as options of the mock."""
    from tradesdk_cli.output.columns import PROBE
    from tradesdk_cli.output.outfile import FileUnwritable
    from tradesdk_cli.pay.checkout import amount_of, market_client
    from tradesdk_cli.probe.ask import LONGEST, Probe
    from tradesdk_cli.probe.points import differences, of_file, options, rows, usual
    from tradesdk_cli.retries import OtherTime

    pay, file, compare = probing.pay, probing.gaps, probing.compare
    try:
        expected = usual() if compare is None else of_file(compare)
    except ValueError as error:
        raise UsageProblem(f"--compare: {error}", "make one: trade doctor --service --gaps FILE") from None
    written = partial(file_errors, FileUnwritable, f"{file} cannot be written", "--gaps takes another FILE")
    if file is not None:
        with written():  # before half a minute and a purchase, not after
            PartialFile(file).drop()
            with suppress(FileNotFoundError):  # a new one is not made yet
                open(file, "r+b").close()
    with run_of(ctx) as run:
        wallet = None
        if pay is not None:
            amount_of("--pay", pay)
            wallet = run.wallet()
            if wallet is None:
                raise ConfigProblem("no wallet to pay with", "trade pay key new, or leave --pay out")
        _ask_first(run, probing, None if wallet is None else wallet.address)
        there = run.settings.mock or run.settings.market_url is not None
        probe = Probe(
            run.client,
            (lambda send: market_client(run, wallet, send_api_key=send)) if there else None,
            OtherTime(run.now),
            write=probing.write,
            pay=pay,
        )
        if run.out.draws(many=True):
            run.out.note(f"checking {run.target().text}: at most {LONGEST:g} s")
        found = rows(probe.run())
        broken = [row for row in found if row["finding"] == "broken"]
        # Behavior for which the mock has no value is in no file either.
        otherwise = [
            row
            for row in differences(found, expected)
            if compare is None or row["value"] is not None or expected[row["point"]] != usual()[row["point"]]
        ]
        for row in found if compare is not None else ():
            row["file"] = expected.get(row["point"])
        shown = found if run.settings.verbose else broken + otherwise
        like = "a mock with its default options" if compare is None else f"a mock with {compare}"
        run.out.many(PROBE, [shown], empty=f"no rule is broken, and the service behaves like {like}")
        if len(shown) < len(found):
            run.out.note(f"{plural(len(found) - len(shown), 'points')} more with -v: not seen, or as in {like}")
        for ident in probe.left_behind:
            run.out.note(f"an agent could not be deleted: {run.settings.program} agents delete {ident}")
        chosen = options(found)
        if file is not None:
            with written():
                atomic_write(file, json.dumps(chosen, indent=2) + "\n")
            run.out.event("written", f"options for the mock written to {file}", file=str(file), items=len(chosen))
        words = [f"--gap {shlex.quote(f'{name}={value}')}" for name, value in chosen.items()]
        run.out.note(f"a mock like this service: trade mock serve {' '.join(words)}".rstrip())
    return SERVER if broken or (compare is not None and otherwise) else 0


def _ask_first(run: Run, probing: Probing, payer: str | None) -> None:
    """Shows what will be written and paid, and asks."""
    from tradesdk_cli.confirm import Change, approve

    about, pay = {}, probing.pay
    if probing.write:
        about["agent"] = 'one named "trade doctor …, to be deleted" is made with your first wallet, changed and deleted'
        about["second agent"] = "the same on another chain than the wallet's; deleted if the service makes it"
    if pay is not None:
        about["purchase"] = f"average prices of one token or two, for at most ${pay} of {payer}"
        about["market data"] = run.target(market=True).text
    if about:
        what = " and ".join(
            ["make, change and delete agents"] * probing.write
            + [f"pay at most ${pay} for market data"] * (pay is not None)
        )
        approve(run, Change(what, "POST", "/v1/agents", about=about), yes=probing.yes, dry_run=None)


def _settings(
    flags: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[Settings, ConfigProblem | ConfigError | None]:
    """The settings, as far as they can be read, and the error."""
    from tradesdk import ConfigError
    from tradesdk_cli.config.settings import Settings, resolve, settings_of

    try:
        return settings_of(flags, environ), None
    except (ConfigError, ConfigProblem) as problem:
        wrong = problem
    # A file or a variable may be wrong; the other variables may still have the service's address.
    for left in (environ, {name: environ[name] for name in ("TRADE_HOME",) if name in environ}):
        with suppress(ConfigError, ConfigProblem):
            return resolve(flags, left), wrong
    return Settings(output=flags.get("output") or "auto"), wrong
