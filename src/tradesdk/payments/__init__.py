"""Signing with a wallet's key."""
