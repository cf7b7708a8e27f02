"""`trade api`: any request."""
