"""Hypothesis: the same examples on every run, nothing written to disk, and no clock in the verdict."""

from hypothesis import settings

settings.register_profile("unit", deadline=None, derandomize=True, database=None)
settings.load_profile("unit")
