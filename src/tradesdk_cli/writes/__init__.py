"""Changes: shown first, then asked about."""
