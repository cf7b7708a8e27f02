"""Market data that is paid for."""
