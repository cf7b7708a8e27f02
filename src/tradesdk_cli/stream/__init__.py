"""Signals as they come: printed, forwarded, handed to commands, recorded."""
