"""What stops a start before it begins."""

from __future__ import annotations


class ConfigurationError(Exception):
    """The service cannot start with these settings or key files. The message says which one and what to do."""
