"""`trade mcp`: tools for AI clients."""

INSTALL = 'pip install "mcp>=2.3,<3"'
"""The hint when the package of the protocol is missing."""
