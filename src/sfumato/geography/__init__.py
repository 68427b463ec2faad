"""Places on the earth: grids of cells, metrics on them, and maps of answers."""
