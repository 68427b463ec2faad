"""The supply chain: the lock file, the bill of materials made from it, and a check of both."""
