"""Random bits, and the exact samplers that spend them."""
