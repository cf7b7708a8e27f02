"""What `trade doctor` looks at. Nothing is changed, and nothing is paid."""
