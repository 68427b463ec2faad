"""Channels that sample one level of a tree per person: hierarchical histograms and Haar."""
