"""Stop all agents from opening positions, and undo that.

    python stop_everything.py stop [FILE]
    python stop_everything.py back [FILE]

FILE (stopped.json) has what each agent had. It needs TRADE_API_KEY and TRADE_BASE_URL, or a profile in TRADE_PROFILE,
with a key that may change agents.
"""

import json
import os
import sys
from pathlib import Path

from tradesdk import NotFoundError, TradeClient, TradeError

NONE = 1.0  # no signal has more confidence


def stop(client: TradeClient, file: Path) -> bool:
    """Raise the `min_confidence` of all agents; True when it worked for all. Run it again if it was interrupted."""
    saved = read(file)
    agents = [client.agents.get(summary.id) for summary in client.agents.list()]
    for agent in agents:
        saved.setdefault(agent.id, agent.min_confidence)  # keeps the values of an interrupted run
    half = file.with_name(f"{file.name}.new")
    half.write_text(json.dumps(saved, indent=2), encoding="utf-8")
    os.replace(half, file)  # complete before the first change
    failed = 0
    for agent in agents:
        try:
            client.agents.update(agent.id, min_confidence=NONE)
            print(f"{agent.name} ({agent.status}): {saved[agent.id]:g} → {NONE:g}")
        except TradeError as error:  # the other agents are still stopped
            failed += 1
            print(f"{agent.name} ({agent.status}): NOT stopped: {error}")
    return not failed


def back(client: TradeClient, file: Path) -> None:
    """Restore each agent's value, unless it was changed since."""
    for agent_id, before in read(file).items():
        try:
            agent = client.agents.get(agent_id)
            if agent.min_confidence == NONE:
                client.agents.update(agent_id, min_confidence=before)
                print(f"{agent.name}: {NONE:g} → {before:g}")
            elif agent.min_confidence != before:
                print(f"{agent.name}: left at {agent.min_confidence:g}, which somebody has set; it was {before:g}")
        except NotFoundError:
            print(f"{agent_id}: deleted meanwhile")
    file.unlink(missing_ok=True)


def read(file: Path) -> dict[str, float]:
    saved: dict[str, float] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return saved


if __name__ == "__main__":
    what, *names = sys.argv[1:] or [""]
    path = Path(names[0] if names else "stopped.json")
    if what not in ("stop", "back") or len(names) > 1 or (what == "back" and not path.exists()):
        sys.exit(f"{path} is missing" if what == "back" else "python stop_everything.py stop|back [FILE]")
    try:
        with TradeClient() as trade:
            if what == "back":
                back(trade, path)
            elif not stop(trade, path):
                sys.exit("not all agents were stopped: run it again")
    except TradeError as error:
        sys.exit(f"{error}\nhint: {error.hint}")
