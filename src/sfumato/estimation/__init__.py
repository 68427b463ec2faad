"""From a tally to answers with their errors."""
