"""Settings: where each comes from, the files they are kept in, and which key may go where."""
