"""Completion of commands, options, ids and symbols in the shell."""
