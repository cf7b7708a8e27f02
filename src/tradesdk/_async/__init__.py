"""All code that waits, written once. `scripts/unasync.py` generates the blocking twin from it."""
