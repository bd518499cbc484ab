"""How much of a command line a role may see: all, the script, the program's name, or nothing.

A file of its own, because every command imports the settings and few need the rest of `privacy`.
"""

from typing import Literal

CommandVisibility = Literal["full", "script", "name", "hidden"]
