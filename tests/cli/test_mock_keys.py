"""`trade mock key` and `trade mock tenant`."""

from __future__ import annotations

from .._rows import each_of
from ._terminal import Terminal

ACCOUNT = ("--mock", "account", "show")


def test_keys_and_what_becomes_of_them(trade: Terminal) -> None:
    made = trade("--mock", "mock", "key", "create", "--name", "eyes", "--scope", "read-only", "--tenant", "me").json
    assert (made["scope"], made["tenant"]) == ("read-only", "me")
    listed = trade("--mock", "mock", "key", "list").lines
    assert [key["state"] for key in listed if key["id"] == made["id"]] == ["valid"]
    assert made["value"] not in str(listed)
    trade.env["TRADE_API_KEY"] = made["value"]
    assert trade(*ACCOUNT).json["api_key_last4"] == made["last4"]
    agent = trade("--mock", "agents", "list", "--status", "idle").lines[0]["id"]
    assert trade("--mock", "agents", "delete", agent, "--yes").code == 5
    wider = trade("--mock", "mock", "key", "scope", made["id"], "full-access").json
    assert wider["scope"] == "full-access"
    assert trade("--mock", "agents", "delete", agent, "--yes").code == 0
    turned = trade("--mock", "mock", "key", "rotate", made["id"]).json
    assert (turned["name"], turned["scope"], turned["tenant"]) == ("eyes", "full-access", "me")
    assert turned["value"] != made["value"]
    assert trade(*ACCOUNT).code == 4
    trade.env["TRADE_API_KEY"] = turned["value"]
    assert trade(*ACCOUNT).json["api_key_last4"] == turned["last4"]
    assert trade("--mock", "mock", "key", "revoke", turned["id"]).json["state"] == "revoked"
    assert trade(*ACCOUNT).code == 4


def test_a_key_ends_when_the_mocks_clock_says_so(trade: Terminal) -> None:
    now = trade("--mock", "mock", "clock", "--freeze").json["now"]
    made = trade("--mock", "mock", "key", "create", "--name", "brief").json
    assert trade("--mock", "mock", "key", "expire", made["id"], "--at", str(now + 60)).json["state"] == "valid"
    trade.env["TRADE_API_KEY"] = made["value"]
    assert trade(*ACCOUNT).code == 0
    trade("--mock", "mock", "clock", "--advance", "60")
    assert trade(*ACCOUNT).code == 4
    other = trade("--mock", "mock", "key", "create", "--name", "briefer").json
    assert trade("--mock", "mock", "key", "expire", other["id"]).json["state"] == "expired"


def test_a_key_of_a_plan(trade: Terminal) -> None:
    made = trade("--mock", "mock", "key", "create", "--name", "poor", "--plan", "free").json
    assert trade(*ACCOUNT, env={"TRADE_API_KEY": made["value"]}).json["plan"] == "free"


@each_of(("verb", "more"), [("revoke", ()), ("rotate", ()), ("expire", ()), ("scope", ("read-only",))])
def test_keys_that_there_are_not(trade: Terminal, verb: str, more: tuple[str, ...]) -> None:
    for odd in ("key_nope", "a/b", "%2F"):
        run = trade("--world", "w", "mock", "key", verb, odd, *more)
        assert (run.code, run.problem["code"]) == (6, "not_found"), odd
        assert run.problem["hint"] == "see what there is: trade --world w mock key list"


@each_of("value", ["mocksk_0123456789abcdef", "mock_full_me", "sk_live_0123456789"])
@each_of(("verb", "more"), [("revoke", ()), ("rotate", ()), ("expire", ()), ("scope", ("read-only",))])
def test_a_value_is_no_id_and_is_not_shown(trade: Terminal, verb: str, more: tuple[str, ...], value: str) -> None:
    run = trade("--world", "w", "mock", "key", verb, value, *more)
    assert (run.code, run.problem["code"]) == (6, "not_found")
    assert "begins with key_" in run.problem["message"]
    assert run.problem["hint"] == "see what there is: trade --world w mock key list"
    assert value not in run.out + run.err


def test_bad_values_for_a_key(own: Terminal) -> None:
    made = own("mock", "key", "create", "--name", "n").json
    late = own("mock", "key", "expire", made["id"], "--at", "4e12")
    assert (late.code, late.problem["status"]) == (8, 400)
    assert "correct the value" in late.problem["hint"]
    nameless = own("mock", "key", "create", "--name", "n", "--tenant", "a/b")
    assert (nameless.code, nameless.problem["status"]) == (8, 400)
    for argv in (("scope", made["id"], "everything"), ("expire", made["id"], "--at", "soon"), ("create",)):
        assert own("mock", "key", *argv).problem["code"] == "usage"
    assert own("mock", "key", "create", "--name", "n", "--plan", "golden").problem["code"] == "usage"


def test_tenants_are_filled_once(trade: Terminal) -> None:
    filled = trade("--mock", "mock", "tenant", "populate", "you", "--trades", "40").json
    assert (filled["agents"], filled["trades"], filled["positions"]) == (6, 40, 8)
    again = trade("--mock", "mock", "tenant", "populate", "you", "--trades", "90").json
    assert again == filled, "nothing was added"
    yours = trade("--mock", "trades", "list", "--all", env={"TRADE_API_KEY": "mock_read_you"})
    assert len(yours.lines) == 40
    assert trade("--mock", "mock", "tenant", "populate", "a b").code == 8
    assert trade("--mock", "mock", "tenant", "populate", "you", "--trades", "7").problem["code"] == "usage"


def test_plans(trade: Terminal) -> None:
    up = trade("--mock", "mock", "tenant", "plan", "me", "enterprise").json
    assert (up["plan"], up["next_plan"]) == ("enterprise", None)
    assert trade(*ACCOUNT).json["plan"] == "enterprise"
    down = trade("--mock", "mock", "tenant", "plan", "me", "free").json
    assert (down["plan"], down["next_plan"]) == ("enterprise", "free")
    assert trade("--mock", "mock", "tenant", "plan", "me", "golden").problem["code"] == "usage"
