"""Noise allocation: which rows to measure under a metric, and how much noise each needs."""
