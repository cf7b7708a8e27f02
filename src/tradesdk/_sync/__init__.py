# Generated from src/tradesdk/_async/__init__.py by scripts/unasync.py: change that file instead.
"""All code that waits, written once. `scripts/unasync.py` generates the blocking twin from it."""
