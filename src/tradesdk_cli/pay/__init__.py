"""Paid market data."""
