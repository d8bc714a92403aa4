"""The keys of a data directory: which there are, and how each is changed for a new one."""
