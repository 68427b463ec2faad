"""Likelihood decoding: the population under which the reports are most likely."""
