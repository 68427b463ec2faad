"""Every figure and table of the four papers that states a number or a curve, made again."""
