"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# The first text strategy of a fresh clone builds a Unicode table, and machines are shared: no test depends on time.
settings.register_profile("fair-beacon", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fair-beacon")
