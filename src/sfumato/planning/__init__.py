"""Planning: the error to expect before anybody is asked."""
