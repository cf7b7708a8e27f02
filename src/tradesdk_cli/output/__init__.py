"""Results: their formats, the parts of them that are wanted, tables for people, and files that take them."""
