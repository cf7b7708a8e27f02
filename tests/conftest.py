"""What holds for all tests."""

from __future__ import annotations

import pytest

# Under trio these are the same decisions once more: connections, deadlines, cancellation and the rest stay in the quick
# run, and these are played by scripts/long.
SAME_UNDER_TRIO = {
    "_async": ("test_market_", "test_paying_", "test_retries", "test_requests", "test_errors", "test_look"),
    "e2e": ("test_stream_",),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        moved = SAME_UNDER_TRIO.get(item.path.parent.name, ())
        if "[trio" in item.name and item.path.name.startswith(moved):
            item.add_marker(pytest.mark.long)
