"""`trade doctor --service`: asks a service what the specification leaves open, and whether it keeps what it says.

`ask` sends the requests; `points` and `rules` judge the answers, without I/O.
"""
