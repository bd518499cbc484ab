"""Rows as a data frame, by whichever library for them is installed."""

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Any, Literal

from fleet_smi.errors import UsageError

DataFrameLibrary = Literal["pandas", "polars"]
LIBRARIES: tuple[DataFrameLibrary, ...] = ("pandas", "polars")
Columns = dict[str, list[Any]]


def to_dataframe(
    columns: Iterable[str],
    numeric_columns: Collection[str],
    rows: Iterable[Mapping[str, Any]],
    library: DataFrameLibrary | None,
) -> Any:
    """A data frame of that library, or of the first that is there; raise `UsageError`.

    The columns that are `numbers` are so even where none is known; others are as they come.
    """
    every = tuple(rows)
    by_column = {column: [row.get(column) for row in every] for column in columns}
    for name in LIBRARIES if library is None else (library,):
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:  # it is there, and lacks something of its own
                raise
        else:
            return _MAKERS[name](module, by_column, numeric_columns)
    wanted = " or ".join(LIBRARIES) if library is None else library
    raise UsageError(f"a data frame needs {wanted}: pip install {library or LIBRARIES[0]}")


def _by_pandas(pandas: Any, columns: Columns, numbers: Collection[str]) -> Any:
    types = {name: "float64" if name in numbers else None for name in columns}
    series = {name: pandas.Series(columns[name], dtype=types[name]) for name in columns}
    return pandas.DataFrame(series)


def _by_polars(polars: Any, columns: Columns, numbers: Collection[str]) -> Any:
    return polars.DataFrame(columns, schema_overrides=dict.fromkeys(numbers, polars.Float64))


_MAKERS: dict[DataFrameLibrary, Callable[[Any, Columns, Collection[str]], Any]] = {
    "pandas": _by_pandas,
    "polars": _by_polars,
}
