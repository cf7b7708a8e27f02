"""`trade logout`: removes the saved key of a profile."""

from __future__ import annotations

import os

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.run import Run, run_of

app = Verbs(run_of)


@app.verb("logout", "trade logout", "trade logout --profile work")
def logout(run: Run) -> None:
    """Remove a saved API key.

    Removes the profile's key from its file or keyring; everything else of the profile stays. The key stays valid at the
    service: revoke it in the dashboard.
    """
    from tradesdk import ConfigError
    from tradesdk.local import remove_parts
    from tradesdk_cli.commands.login import note_mock_removal
    from tradesdk_cli.config.credentials import key_store, remove_key
    from tradesdk_cli.config.files import change

    run.out.selection.expect("profile", "removed")
    settings = run.settings
    name = settings.profile
    killed = remove_parts(str(key_store(settings).folder))  # half-written, of any profile
    removed = ["the key of a login that was killed"] if killed else []
    if name is not None:
        store = settings.saved.tables[name].get("key")
        for candidate in ("file", "keyring"):
            # The keyring is neither imported nor opened unless the profile uses it.
            if (candidate == "file" or store == "keyring") and remove_key(settings, name, candidate):
                removed.append(key_store(settings).where(name, candidate))
        try:
            change(settings.config_folder() / "config.toml", ("profiles", name), {"key": None})
        except (ConfigError, ConfigProblem) as problem:
            if not removed:
                raise
            message = f"the key was removed from {', '.join(removed)}, but the settings still name it: "
            raise ConfigProblem(message + problem.message, problem.hint) from None
    run.out.one({"profile": name, "removed": ", ".join(removed) or None})
    if removed:
        run.out.note("the service still accepts the key: revoke it in the dashboard to disable it")
    else:
        run.out.note("nothing to remove: no key was saved")
    if name is not None and settings.saved.tables[name].get("kind") == "mock":
        note_mock_removal(run, name)
    if os.environ.get("TRADE_API_KEY"):
        run.out.note("TRADE_API_KEY is still set: unset TRADE_API_KEY")
