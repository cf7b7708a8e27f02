"""What holds for all tests."""

from __future__ import annotations

import contextlib
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells do it for what they start in the background
    with contextlib.suppress(ValueError):  # only the main thread may, and elsewhere nobody sends it
        signal.signal(signal.SIGINT, signal.default_int_handler)  # else what the tests start could not be interrupted

# Under trio these are the same decisions once more: connections, deadlines, cancellation and the rest stay in the quick
# run, and these are played by scripts/long.
SAME_UNDER_TRIO = {
    "_async": ("test_market_", "test_paying_", "test_retries", "test_requests", "test_errors", "test_look"),
    "e2e": ("test_stream_",),
}

# Slow, and seldom broken: whole files that are played by scripts/long.
STEADY = {
    # Their blocking twins are played at once.
    "_async": (
        *("test_errors", "test_hostile_answers", "test_market_calls", "test_market_guards", "test_market_hostile"),
        *(
            "test_market_hostile_answers",
            "test_market_options",
            "test_paying_scenarios",
            "test_requests",
            "test_retries",
        ),
        *("test_market_batches", "test_market_payments", "test_paying_interrupted", "test_paying_schedules"),
        "test_service_agents",
        *("test_service_keys", "test_stream_behaviour_history", "test_stream_outage", "test_stream_promise"),
    ),
    "cli": (
        *("test_demo", "test_embedded", "test_kept_answers", "test_mock_journal", "test_mock_serve", "test_mock_world"),
        *("test_processes", "test_stream_ends", "test_stream_processes", "test_stream_resume"),
    ),
    "e2e": (
        "test_gaps",
        "test_in_process",
        "test_ledger_processes",
        "test_mock_kills",
        "test_mock_processes",
        "test_payment_budget_shared",
        "test_payment_kills",
        "test_stream_closing",
        "test_stream_faults",
        "test_stream_surroundings",
        "test_two_terminals",
    ),
    "mock": (
        *("test_books", "test_crossovers", "test_market_bodies", "test_pages", "test_payments_settle"),
        *("test_rehearsal_day", "test_stream_life"),
        *("test_determinism", "test_fault_every", "test_fault_status", "test_fault_streams", "test_fault_warnings"),
        *("test_floor", "test_openapi_answers", "test_openapi_page", "test_prices", "test_scenarios", "test_seedworld"),
        *("test_fault_input", "test_payments_wire", "test_raw_http", "test_snapshot_control", "test_snapshots"),
        *("test_state_files", "test_transport_time"),
        *("test_gaps_history", "test_gaps_market", "test_market_pay", "test_market_performance", "test_market_port"),
        *("test_market_signals", "test_market_strangers", "test_plugin", "test_schedule", "test_signal_times"),
        *("test_stream_clock", "test_stream_trouble", "test_stream_unread", "test_strangers", "test_threads"),
    ),
    "tests": ("test_backtest", "test_backtest_runs", "test_package", "test_pictures", "test_stream_examples"),
    "unit": ("test_checkpoint_lock", "test_replay_walks", "test_unasync"),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    examples = [item for item in items if item.name.startswith("test_example[") and item.path.name == "test_help.py"]
    for place, item in enumerate(examples):  # quick: the first of a command's two, where it is no mock's or payment's
        if place % 2 or any(noun in item.name for noun in ("trade mock", "market", "pay ")):
            item.add_marker(pytest.mark.long)
    for item in items:
        folder, name = item.path.parent.name, item.path.name
        again = "[trio" in item.name and name.startswith(SAME_UNDER_TRIO.get(folder, ()))
        if again or name.removesuffix(".py") in STEADY.get(folder, ()):
            item.add_marker(pytest.mark.long)
