"""Everything that waits, written once. `scripts/unasync.py` writes the blocking twin from it."""
