# Generated from src/tradesdk/_async/__init__.py by scripts/unasync.py: change that file instead.
"""Everything that waits, written once. `scripts/unasync.py` writes the blocking twin from it."""
