"""Output: formats, selected fields, tables for people, and output files."""
