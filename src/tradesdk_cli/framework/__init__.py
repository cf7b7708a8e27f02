"""Help: topics, mistakes on a command line, completion."""
