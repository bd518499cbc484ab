"""Files that commands write: whole or not at all, and never through a link."""

import os
import tempfile
from pathlib import Path

from fleet_smi.errors import Unmet, UsageError


def write_file(path: Path, text: str, mode: int, *, replace: bool) -> None:
    """Write a file with that mode; what is there already is replaced or left, as said."""
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
            path.parent.chmod(0o755)  # whatever the umask: who may read a file, its mode says
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        whole = Path(name)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fchmod(number, mode)
                os.fsync(number)
            if replace:
                whole.replace(path)
            else:
                path.hardlink_to(whole)
        finally:
            whole.unlink(missing_ok=True)
    except FileExistsError:
        raise UsageError(f"{path} is there already and is not overwritten") from None
    except OSError as error:
        raise Unmet(f"{path} cannot be written: {error.strerror}") from None
