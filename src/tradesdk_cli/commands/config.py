"""`trade config`: show settings with their sources, and change them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.run import Run, run_of
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.output.printer import Output

app = noun("config", "Settings and profiles: list, get, set, unset, path.", run_of)


def _complete_setting(incomplete: str) -> list[str]:
    from tradesdk_cli.config.entries import SHOWN

    return [name for name in SHOWN if name.startswith(incomplete)]


SettingName = Annotated[
    str,
    typer.Argument(metavar="NAME", autocompletion=_complete_setting, help="The setting; trade config list shows all."),
]


@app.verb("list", "trade config list --sources", "trade --mock config list -o json")
def list_(
    run: Run,
    sources: Annotated[bool, typer.Option("--sources", help="Show where each value comes from.")] = False,
) -> None:
    """Show all settings.

    Options override the environment, which overrides the project's .trade.toml, the profile and the defaults. Keys are
    never shown.
    """
    from tradesdk_cli.config.entries import SHOWN
    from tradesdk_cli.output.columns import Column

    columns = [Column("name"), Column("value", "id"), *([Column("source", "id")] if sources else [])]
    rows = [{column.key: _row(run.settings, name)[column.key] for column in columns} for name in SHOWN]
    run.out.many(columns, [rows], empty="nothing is set")


@app.verb("get", "trade config get output", "trade config get base_url -o json")
def get(run: Run, name: SettingName) -> None:
    """Print the value of one setting, for scripts.

    With -o json also its source.
    """
    from tradesdk_cli.config.entries import shown_name

    row = _row(run.settings, shown_name(name))
    if row["value"] is None:
        run.out.note(f"{row['name']} is not set, so nothing is shown")
    _bare(run.out, row, row["value"])


@app.verb("set", "trade config set output json", "trade config set timeout 10 --profile work")
def set_(
    ctx: typer.Context,
    name: SettingName,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its new value.")],
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Skip the confirmation prompt when a saved key would go to another address."),
    ] = False,
) -> None:
    """Change a setting of the profile.

    Comments in the file stay. trade login saves keys.
    """
    _change(ctx, name, value, yes=yes)


@app.verb("unset", "trade config unset output", "trade config unset timeout --profile work")
def unset(ctx: typer.Context, name: SettingName) -> None:
    """Remove a setting from the profile."""
    _change(ctx, name, None)


def _change(ctx: typer.Context, name: str, value: str | None, *, yes: bool = False) -> None:
    from tradesdk.local import host_of, origin_of
    from tradesdk_cli.config.credentials import addresses_of
    from tradesdk_cli.config.entries import parse, plain_name, settable_name
    from tradesdk_cli.config.files import CONFIG_FILE, change
    from tradesdk_cli.confirm import agree

    with run_of(ctx, new_profile=value is not None) as run:
        run.out.selection.expect("name", "value", "profile", "file")
        settings, name = run.settings, plain_name(name)
        profiles, profile = settings.saved.tables, settings.profile or "default"
        file = settings.config_folder() / CONFIG_FILE
        if name == "profile":
            if value is None:
                raise UsageProblem("the default profile is changed, not removed", "{trade} config set profile NAME")
            settings.saved.named(value)  # or the profile does not exist
            change(file, (), {name: value})
            run.out.one({"name": name, "value": value, "profile": None, "file": str(file)})
            if settings.sources[name] not in ("default", CONFIG_FILE) and settings.profile != value:
                run.out.note(f"{settings.profile} is used here, because of {settings.sources[name]}")
            return
        name = settable_name(name)
        parsed: Any = None if value is None else parse(name, value)
        if settings.profile not in (None, *profiles) and name not in ("base_url", "kind"):
            settings.saved.named(profile)  # does not exist: only required settings create a profile
        if parsed is not None and name in ("base_url", "market_url"):
            parsed = run.connect(parsed, "none-yet").base_url
            table = profiles.get(profile, {})
            if "key" in table and origin_of(parsed) not in map(origin_of, addresses_of(table)):
                agree(f"let the key that profile {profile} keeps go to {host_of(parsed)}", yes=yes)
        if parsed is None and name not in profiles.get(profile, {}):
            run.out.note(f"nothing to remove: {name} is not set there")
        change(file, ("profiles", profile), {name: parsed})
        run.out.one({"name": name, "value": parsed, "profile": profile, "file": str(file)})


@app.verb("path", "trade config path", "trade config path -o json")
def path(ctx: typer.Context) -> None:
    """Print the path of the settings file; with -o json also the other paths.

    Works with a broken file, too.
    """
    from tradesdk.local import config_folder
    from tradesdk_cli.config.files import find_project
    from tradesdk_cli.config.settings import resolve
    from tradesdk_cli.output.printer import Output

    out = Output(resolve(ctx.obj, os.environ), os.environ)
    folder = config_folder(os.environ.get("TRADE_HOME"))
    project = find_project()
    shown = {
        "config": str(folder / "config.toml"),
        "project": None if project is None else str(project),
        "keys": str(folder / "keys"),
        "data": str(out.settings.data_folder()),
    }
    _bare(out, shown, shown["config"])


def _row(settings: Settings, name: str) -> dict[str, Any]:
    from tradesdk_cli.config.credentials import without_password
    from tradesdk_cli.config.files import CONFIG_FILE

    if name == "profiles":
        return {"name": name, "value": ", ".join(settings.saved.tables) or None, "source": CONFIG_FILE}
    value, source = getattr(settings, name), settings.sources[name]
    if name == "api_key":  # whether there is a key, never the key
        value = None if source == "default" else "set"
    elif name in ("base_url", "market_url") and value is not None:
        value = without_password(value)
    return {"name": name, "value": value, "source": source}


def _bare(out: Output, item: dict[str, Any], value: Any) -> None:
    """Prints the value, or all with a typed format. The profile's `output` does not count: it would break scripts."""
    settings = out.settings
    typed = settings.output not in ("auto", "table") and settings.sources["output"].startswith("flag")
    if typed or settings.out or settings.query or settings.fields:
        out.one(item)
    elif value is not None:
        out.write(visible("true" if value is True else "false" if value is False else str(value)) + "\n")
