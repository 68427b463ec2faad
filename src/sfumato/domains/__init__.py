"""What a value may be: value → cell → label."""
