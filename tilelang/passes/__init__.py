"""Target-neutral passes over tile functions; a target's `lower.py` names them in the order in which they
run.
"""
