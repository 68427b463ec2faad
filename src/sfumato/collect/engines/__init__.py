"""Tallies of files: parts of files become accumulators, wherever they are read, and merge."""
