"""Settings: `beacon.toml`, overridden by `BEACON_*` variables; and the key files of the data directory.

Secrets are no settings: they are files of their own, which only their owner may read.
"""

from beacon.settings.errors import ConfigurationError
from beacon.settings.keyfiles import KEY_BYTES, read_key, sync_directory, write_key
from beacon.settings.loading import CONFIG_NAME, config_file, explain, load_settings, set_by, setting_names
from beacon.settings.model import (
    DAY_MS,
    DRAND_RELAYS,
    ENV_PREFIX,
    ChainSettings,
    LimitSettings,
    ListenSettings,
    LoggingSettings,
    MetricsSettings,
    RateSettings,
    Section,
    SessionSettings,
    Settings,
    WaitingSettings,
    WebhookSettings,
    WitnessSettings,
    check_origin,
)

__all__ = [
    "CONFIG_NAME",
    "DAY_MS",
    "DRAND_RELAYS",
    "ENV_PREFIX",
    "KEY_BYTES",
    "ChainSettings",
    "ConfigurationError",
    "LimitSettings",
    "ListenSettings",
    "LoggingSettings",
    "MetricsSettings",
    "RateSettings",
    "Section",
    "SessionSettings",
    "Settings",
    "WaitingSettings",
    "WebhookSettings",
    "WitnessSettings",
    "check_origin",
    "config_file",
    "explain",
    "load_settings",
    "read_key",
    "set_by",
    "setting_names",
    "sync_directory",
    "write_key",
]
