"""A row of the settings table, and the two rows of a secret."""

from typing import Any

from msgspec import Struct

from fleet_smi.config import value_types
from fleet_smi.config.value_types import ValueType


class Setting(Struct, frozen=True):
    """One row of the table; `section.key` in the file, `FLEET_SMI_SECTION_KEY` outside."""

    section: str
    key: str
    value_type: ValueType
    default: Any
    description: str
    example: Any = None
    """An example value, for a setting that is not set by default."""

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def environment_variable(self) -> str:
        return f"FLEET_SMI_{self.section}_{self.key}".upper()

    @property
    def is_secret(self) -> bool:
        return self.value_type in (value_types.SECRET, value_types.PASSWORD)


def secret_rows(
    section: str, key: str, description: str, value_type: ValueType = value_types.SECRET
) -> tuple[Setting, Setting]:
    """The two rows of a secret: itself, and the file that may contain it."""
    file = f"/etc/fleet-smi/{key.replace('_', '-')}"
    return (
        Setting(section, key, value_type, None, description, "the-token"),
        Setting(section, f"{key}_file", value_types.PATH, None, f"a file with {description}", file),
    )
