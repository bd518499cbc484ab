"""A settings file to start from: every setting with what it means, all of them commented out."""

import json
from typing import Any

from fleet_smi.config.table import SETTINGS, Setting

_HEAD = """\
# Settings of fleet-smi. Each line that starts with # and a key is the default, or an example
# where there is none: take the # away and change what stands there.
# Lengths of time are written like "90s" or "10min", sizes like "512MiB".
"""
REDACTED = "set, not shown"


def render_template() -> str:
    """The text of the file."""
    lines = [_HEAD]
    section = None
    for setting in SETTINGS:
        if setting.section != section:
            section = setting.section
            lines.append(f"[{section}]")
        lines.append(
            f"# {_sentence(setting)}\n#{setting.key} = {to_toml_literal(_shown(setting))}\n"
        )
    return "\n".join(lines)


def format_value(setting: Setting, value: Any) -> Any:
    """A value as it would stand in a file; a secret does not leave."""
    if value is None:
        return None
    return REDACTED if setting.is_secret else setting.value_type.format(value)


def to_toml_literal(plain: Any) -> str:
    """A plain value as TOML."""
    if isinstance(plain, dict):
        pairs = ", ".join(f"{key} = {to_toml_literal(value)}" for key, value in plain.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(plain, list):
        return f"[{', '.join(map(to_toml_literal, plain))}]"
    # Text, numbers and truth are written in TOML as they are in JSON.
    return json.dumps(plain, ensure_ascii=False)


def _sentence(setting: Setting) -> str:
    words = setting.description[0].upper() + setting.description[1:]
    return f"{words}." if setting.example is None else f"{words}. Not set; for example:"


def _shown(setting: Setting) -> Any:
    return setting.value_type.format(
        setting.default if setting.example is None else setting.example
    )
