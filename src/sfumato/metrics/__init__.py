"""E, the guarantee: what a study says about two values, and what follows for two cells."""
