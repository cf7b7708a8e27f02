"""`trade mock`: serve, inspect and control the mock service on this machine."""

from __future__ import annotations

from tradesdk_cli.cli.group import noun

app = noun("mock", "The mock service on your machine: serve, inspect, control.")

VERBS = {
    "serve": "Serve the mock on a port until Ctrl-C.",
    "logs": "List the requests that the mock received, oldest first.",
    "status": "Show what the mock holds: seed, clock, counts, faults.",
    "clock": "Show, move, stop or speed up the clock.",
    "emit": "Publish a signal, now or later.",
    "fault": "Faults on demand: add, list, kinds, remove, clear.",
    "agent": "Move agents to another state: start, stop, set-status.",
    "payments": (
        "What was paid in play money: list, submissions, check, balances, balance, set-balance, wallet, deploy-wallet, "
        "delegate."
    ),
    "gaps": "What the service's specification leaves open: list, set.",
    "reset": "Delete everything but the clock and the gap options.",
    "key": "API keys of the mock: create, list, expire, rotate, revoke.",
    "tenant": "Tenants of the mock: populate, plan.",
    "snapshot": "Write the mock's state into a file.",
    "restore": "Restore a snapshot, or load a state file.",
}
