"""A first look: an invented town, from the question to the answer."""
