"""Models of the service's answers: frozen values. Import the names from `tradesdk`."""
