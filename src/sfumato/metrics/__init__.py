"""Metrics: the guarantee E between two values, and what it means for two cells."""
