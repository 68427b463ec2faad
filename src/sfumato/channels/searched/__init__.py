"""Channels whose tables are found by search, and travel with the study."""
