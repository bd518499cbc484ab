"""Names of people, as accounts and personal tokens have them."""

from fleet_smi.errors import UsageError
from fleet_smi.model.safe_text import sanitize_text

_MAX_LENGTH = 64


def require_person_name(name: str) -> None:
    """Raise `UsageError` for a name that is empty, too long or not printable."""
    if not name or sanitize_text(name, _MAX_LENGTH) != name:
        raise UsageError(f"a name has 1 to {_MAX_LENGTH} printable characters")
