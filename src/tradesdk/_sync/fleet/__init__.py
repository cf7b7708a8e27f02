# Generated from src/tradesdk/_async/fleet/__init__.py by scripts/unasync.py: change that file instead.
