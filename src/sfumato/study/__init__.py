"""A study: its axes, what each is promised, and the channels that keep the promise."""
