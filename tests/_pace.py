"""How fast this machine is, for tests that something is done quickly: a bound in seconds would be about the machine."""

from __future__ import annotations

import time


def pace() -> float:
    """CPU seconds that some plain work takes here and now."""
    began = time.process_time()
    sum(number * number for number in range(1_000_000))
    return time.process_time() - began
