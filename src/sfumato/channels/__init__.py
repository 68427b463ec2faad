"""Channels: the perturbation of a block of axes. One family per file; the registry is open."""
