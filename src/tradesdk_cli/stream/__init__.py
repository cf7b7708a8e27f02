"""Signals as they come: printed, and handed to commands."""
