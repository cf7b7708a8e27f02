"""What `trade demo` shows."""
