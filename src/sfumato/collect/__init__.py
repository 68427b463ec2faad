"""From reports to tallies: what a collector holds."""
