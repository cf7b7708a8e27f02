"""`trade mock`: the mock service on this machine, served, looked at and controlled."""

from __future__ import annotations

from tradesdk_cli.framework.group import noun

app = noun("mock", "The mock service on your machine: serve it, look at it, control it.")

VERBS = {
    "serve": "Serve the mock on a port until Ctrl-C.",
    "status": "Show what the mock holds: seed, clock, counts, faults.",
    "worlds": "Embedded worlds on this machine: list, remove.",
    "reset": "Delete everything but the clock and the gap options.",
    "snapshot": "Write the mock's state into a file.",
    "restore": "Restore a snapshot, or load a state file.",
    "clock": "Show, move, stop or speed up the mock's clock.",
    "fault": "Faults on demand: add, list, kinds, remove, clear.",
    "emit": "Publish signals, now or later: signal.",
    "market": "Show whether prices of market data fail, or change that.",
    "agent": "Start or stop an agent, or put it into another state.",
    "key": "API keys of the mock: create, list, scope, expire, rotate, revoke.",
    "tenant": "Tenants of the mock: populate, plan.",
    "payments": "What the mock was paid in play money: list, balance, check.",
    "journal": "List the requests that the mock received.",
    "logs": "Print the requests that the mock receives, a line each.",
    "gaps": "List what the service's specification leaves open, and the mock's choices.",
}
