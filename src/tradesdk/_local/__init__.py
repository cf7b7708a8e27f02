"""What `trade` keeps on this machine for one person: folders, profiles, and their saved keys."""
