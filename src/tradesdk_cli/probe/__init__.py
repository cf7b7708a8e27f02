"""`trade doctor --service`: finds out what the specification leaves open, and whether a service keeps its rules.

`ask` sends the requests; `points` and `rules` judge the answers, without I/O.
"""
