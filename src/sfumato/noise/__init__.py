"""How much noise for which rows: allocation under any metric, and the search for strategies."""
