"""Settings: their sources, their files, and the addresses that a key may be sent to."""
