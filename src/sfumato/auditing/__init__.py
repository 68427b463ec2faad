"""Auditing: the exact check that every channel keeps its guarantee."""
