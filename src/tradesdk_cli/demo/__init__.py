"""The tour of `trade demo`."""
