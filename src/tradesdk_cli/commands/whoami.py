"""`trade whoami`: the account, the service and the key in use."""

from __future__ import annotations

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.run import Run, run_of

app = Verbs(run_of)


@app.verb("whoami", "trade whoami", "trade whoami -o json")
def whoami(run: Run) -> None:
    """Show which account and service are in use.

    Sends one request with the key that commands use. Shows the last four characters of the key and its source.
    """
    account = run.client.account.get()
    base_url = run.client.base_url
    found = run.api_key(base_url)
    target = run.target()
    shown = {
        "email": account.email,
        "plan": account.plan,
        "api_key_last4": account.api_key_last4[-4:],  # a service may say more
        "key_from": None if found is None else found[1],
        "profile": run.settings.profile,
        "mode": target.fields["mode"],
    }
    if run.settings.mock:
        run.out.one({**shown, "world": run.settings.world})
    else:
        run.out.one({**shown, "base_url": base_url, "address_from": run.settings.sources["base_url"]})
