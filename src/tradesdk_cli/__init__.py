"""The terminal client `trade`."""
