"""Lists: pages, and checkpoints of long ones."""
