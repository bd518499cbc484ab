"""Convert rows to a data frame of pandas or polars, whichever is installed."""

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
    """A data frame of that library, or of the first one installed; raise `UsageError`.

    Numeric columns are floats even if no value is known; the library infers the others.
    """
    all_rows = tuple(rows)
    by_column = {column: [row.get(column) for row in all_rows] for column in columns}
    for name in LIBRARIES if library is None else (library,):
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:  # installed, but one of its own dependencies is missing
                raise
        else:
            return _BUILDERS[name](module, by_column, numeric_columns)
    required = " or ".join(LIBRARIES) if library is None else library
    raise UsageError(f"a data frame needs {required}: pip install {library or LIBRARIES[0]}")


def _pandas_frame(pandas: Any, columns: Columns, numbers: Collection[str]) -> Any:
    types = {name: "float64" if name in numbers else None for name in columns}
    series = {name: pandas.Series(columns[name], dtype=types[name]) for name in columns}
    return pandas.DataFrame(series)


def _polars_frame(polars: Any, columns: Columns, numbers: Collection[str]) -> Any:
    return polars.DataFrame(columns, schema_overrides=dict.fromkeys(numbers, polars.Float64))


_BUILDERS: dict[DataFrameLibrary, Callable[[Any, Columns, Collection[str]], Any]] = {
    "pandas": _pandas_frame,
    "polars": _polars_frame,
}
