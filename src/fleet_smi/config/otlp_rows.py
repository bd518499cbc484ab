"""The rows of the settings table for OpenTelemetry metrics (OTLP)."""

from fleet_smi.config import value_types
from fleet_smi.config.setting_row import Setting, secret_rows
from fleet_smi.model.units import GIB

OTLP_ROWS: tuple[Setting, ...] = (
    Setting(
        "hub",
        "otlp",
        value_types.URL,
        None,
        "where to send figures as OpenTelemetry metrics (OTLP over HTTP)",
        "https://collector:4318/v1/metrics",
    ),
    *secret_rows("hub", "otlp_token", "the token that this receiver requires"),
    Setting("hub", "otlp_user", value_types.NAME, None, "a user whose password it is", "fleet"),
    Setting("hub", "otlp_header", value_types.HEADER, None, "or the header for it", "api-key"),
    Setting(
        "hub",
        "otlp_attributes",
        value_types.ATTRIBUTES,
        {},
        "resource attributes added to all that is sent there",
        {"deployment.environment.name": "lab"},
    ),
    Setting("hub", "otlp_interval", value_types.INTERVAL, 30.0, "how often to send"),
    Setting(
        "hub",
        "otlp_buffer",
        value_types.SIZE,
        GIB,
        "the size limit on disk of what could not be sent",
    ),
)
