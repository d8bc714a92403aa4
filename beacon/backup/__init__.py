"""Backups of a data directory: made beside the running service, checked as they are written, and put back."""
