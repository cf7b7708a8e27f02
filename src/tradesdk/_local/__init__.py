"""What `trade` keeps on this machine for one person: where it is, profiles, and the keys that they save."""
