"""Answers from reports on two of many axes each: one population that all pairs agree on."""
