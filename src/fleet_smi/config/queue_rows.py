"""The rows of the settings table for the queue."""

from fleet_smi.config import value_types
from fleet_smi.config.setting_row import Setting

QUEUE_ROWS: tuple[Setting, ...] = (
    Setting("hub", "queue_per_person", value_types.COUNT, 10, "how many requests one may queue"),
    Setting("hub", "queue_most", value_types.COUNT, 1000, "how many requests may wait in all"),
)
