"""What holds for all tests."""

import os

from hypothesis import HealthCheck, settings

from tests.secret_watch import install, pytest_runtest_teardown  # noqa: F401 - the second is a hook

# The first text strategy of a fresh clone builds a Unicode table, and machines are shared: no test depends on time.
settings.register_profile("fair-beacon", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fair-beacon")
install()


def pytest_xdist_auto_num_workers() -> int:
    """Much of a test's time goes by waiting for processes and rounds: four at once even on a small machine."""
    return max(4, os.cpu_count() or 1)
