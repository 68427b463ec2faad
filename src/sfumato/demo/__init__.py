"""The demo: an invented town, asked and answered, with the truth beside the answers."""
