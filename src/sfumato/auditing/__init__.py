"""The exact check that every channel keeps its promise."""
