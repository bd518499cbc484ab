"""Rows as a data frame, by whichever library for them is installed."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Literal

from fleet_smi.errors import UsageError

Library = Literal["pandas", "polars"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars")


def framed(
    columns: Iterable[str], rows: Iterable[Mapping[str, Any]], library: Library | None
) -> Any:
    """A data frame of that library, or of the first that is there; raise `UsageError`."""
    every = tuple(rows)
    by_column = {column: [row[column] for row in every] for column in columns}
    for name in LIBRARIES if library is None else (library,):
        try:
            return import_module(name).DataFrame(by_column)
        except ModuleNotFoundError as error:
            if error.name != name:  # it is there, and lacks something of its own
                raise
    wanted = " or ".join(LIBRARIES) if library is None else library
    raise UsageError(f"a data frame needs {wanted}: pip install {library or LIBRARIES[0]}")
