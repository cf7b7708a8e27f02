"""Lists and other long work: pages, progress, and going on where it ended."""
