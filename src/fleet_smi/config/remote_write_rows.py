"""The rows of the settings table for Prometheus remote write."""

from fleet_smi.config import value_types
from fleet_smi.config.setting_row import Setting, secret_rows
from fleet_smi.model.units import GIB

REMOTE_WRITE_ROWS: tuple[Setting, ...] = (
    Setting(
        "hub",
        "remote_write",
        value_types.URL,
        None,
        "where to send figures by Prometheus remote write",
        "https://metrics:8428/api/v1/write",
    ),
    *secret_rows("hub", "remote_write_token", "the token that this receiver requires"),
    Setting("hub", "remote_write_user", value_types.NAME, None, "or a user", "fleet"),
    *secret_rows("hub", "remote_write_password", "the password of that user"),
    Setting(
        "hub",
        "remote_write_labels",
        value_types.SERIES_LABELS,
        {},
        "labels added to every series sent there",
        {"site": "a"},
    ),
    Setting("hub", "remote_write_interval", value_types.INTERVAL, 30.0, "how often to send"),
    Setting(
        "hub",
        "remote_write_buffer",
        value_types.SIZE,
        GIB,
        "the size limit on disk of what could not be sent",
    ),
)
