"""`trade doctor`: checks settings, keys, service, wallet and ledger, and says what to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from tradesdk_cli.cli.group import single

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.errors import ConfigProblem
    from tradesdk_cli.health import Finding
    from tradesdk_cli.session import Session

app = single("Check settings, key, services, wallet and ledger.")


@app.verb("doctor", "trade doctor", "trade --mock doctor -o json")
def doctor(ctx: typer.Context) -> None:
    """Check settings, key, services, wallet and ledger.

    Settings and their sources, proxies, both APIs, the API key and its account, the clock, wallet, ledger and budget,
    the fleet, and the MCP server. Changes nothing and pays nothing. Exit code 0: no problem (warnings allowed); 3: a
    setting is wrong; 1: another problem.
    """
    from tradesdk_cli.health import exit_code, show, summary
    from tradesdk_cli.output.columns import DOCTOR
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session

    chosen, broken = _settings(ctx.obj, os.environ)
    ctx.obj["resolved"] = chosen
    run = Session(chosen, Output(chosen, os.environ))
    try:
        if chosen.debug or chosen.curl:
            from tradesdk_cli.diagnostics import watching

            run.enter(watching(run.out, debug=chosen.debug, curl=chosen.curl, mock=chosen.mock))
        findings = _examine(run, broken)
        if run.out.draws(many=True):
            show(run.out, findings)
            run.out.note(summary(findings))
        else:
            run.out.many(DOCTOR, [[one.as_dict() for one in findings]], empty="nothing to check")
    finally:
        run.close()
    raise typer.Exit(exit_code(findings))


def _settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[Settings, ConfigProblem | None]:
    """The settings, as far as they can be read, and what is wrong with them."""
    from tradesdk_cli.config.files import Files, config_folder
    from tradesdk_cli.config.settings import Settings, resolve, settings_of
    from tradesdk_cli.errors import ConfigProblem

    try:
        return settings_of(flags, environ), None
    except ConfigProblem as problem:
        wrong = problem
    # The files may be what is wrong, or a variable; what is left still says where the service is.
    try:
        file = config_folder(environ.get("TRADE_HOME")) / "config.toml"
    except ConfigProblem:
        file = None
    for left in (environ, {name: environ[name] for name in ("TRADE_HOME",) if name in environ}, {}):
        try:
            return resolve(flags, left, Files(config_file=file), new_profile=True), wrong
        except ConfigProblem:
            continue
    return Settings(output=flags.get("output") or "auto"), wrong


def _examine(run: Session, broken: ConfigProblem | None) -> list[Finding]:
    from tradesdk_cli import health

    chosen, environ = run.settings, os.environ
    checks: list[tuple[str, Callable[[], Sequence[Finding]]]] = [
        ("settings", lambda: _wrong(broken) if broken else health.settings(chosen, environ)),
        ("api", lambda: health.account(run)),
        ("market data", lambda: health.market(run)),
        ("wallet", lambda: health.wallet(run, environ)),
        ("ledger", lambda: health.ledger(run)),
        ("fleet", lambda: health.fleet(run)),
        ("mcp", health.mcp),
    ]
    return [one for name, check in checks for one in health.run(name, check)]


def _wrong(broken: ConfigProblem) -> list[Finding]:
    from tradesdk_cli.health import Finding
    from tradesdk_cli.text import one_line

    return [Finding("settings", "problem", one_line(broken.message), broken.hint, config=True)]
