"""`trade mcp`: tools for AI clients."""

INSTALL = 'pip install "mcp>=2.3,<3"'
"""What to do where the package of the protocol is missing."""
