"""The report that a privacy officer signs: guarantee, audit, errors and alternatives together."""
