# Generated from src/tradesdk/_async/resources/__init__.py by scripts/unasync.py: change that file instead.
"""One module per noun of the API."""
