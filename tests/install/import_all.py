"""Import every module of the light part: run by the interpreters under test, with `NOT_LIGHT`."""

import os
import re
import sys
from importlib import import_module
from pathlib import Path

import fleet_smi


def main() -> None:
    """Import all of them; those that belong to an extra may lack its packages, and nothing else."""
    folder = Path(fleet_smi.__file__).parent
    imported = 0
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        if re.search(os.environ["NOT_LIGHT"], str(path)) or name.endswith("__main__"):
            continue
        try:
            import_module(name.removesuffix(".__init__"))
            imported += 1
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in (*sys.stdlib_module_names, "fleet_smi"):
                raise
    print(imported, ".".join(map(str, sys.version_info[:2])))


if __name__ == "__main__":
    main()
