"""Models of the service's responses: frozen values. Import the names from `tradesdk`."""
