"""Places on a map: grids of cells, and answers laid out again."""
