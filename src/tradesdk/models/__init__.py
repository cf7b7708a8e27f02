"""What the service sends, as frozen values. Import the names from `tradesdk` itself."""
