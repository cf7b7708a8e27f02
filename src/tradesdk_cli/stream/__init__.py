"""Live signals: printed, and passed to commands."""
