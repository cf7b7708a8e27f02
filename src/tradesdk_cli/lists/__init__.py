"""Lists: pages, and the names beside them."""
