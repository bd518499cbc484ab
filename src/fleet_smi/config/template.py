"""Template of a settings file: every setting with its description, commented out."""

import json
from typing import Any

from fleet_smi.config.setting_row import Setting
from fleet_smi.config.table import SETTINGS

_HEAD = """\
# Settings of fleet-smi. Each line that starts with # and a key is the default, or an example
# where there is none: remove the # and change the value.
# Lengths of time are written like "90s" or "10min", sizes like "512MiB".
"""
REDACTED = "set, not shown"


def render_template() -> str:
    """Return the text of the template."""
    lines = [_HEAD]
    section = None
    for setting in SETTINGS:
        if setting.section != section:
            section = setting.section
            lines.append(f"[{section}]")
        lines.append(
            f"# {_sentence(setting)}\n#{setting.key} = {to_toml_literal(_example_value(setting))}\n"
        )
    return "\n".join(lines)


def format_value(setting: Setting, value: Any) -> Any:
    """Return a value as it is written in a file; a secret is redacted."""
    if value is None:
        return None
    return REDACTED if setting.is_secret else setting.value_type.format(value)


def to_toml_literal(plain: Any) -> str:
    """Return a plain value as TOML."""
    if isinstance(plain, dict):
        # A name with a dot is quoted: TOML would read it as a table in a table.
        names = {key: json.dumps(key) if "." in key else key for key in plain}
        pairs = ", ".join(f"{names[key]} = {to_toml_literal(plain[key])}" for key in plain)
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(plain, list):
        return f"[{', '.join(map(to_toml_literal, plain))}]"
    # TOML writes text, numbers and booleans as JSON does.
    return json.dumps(plain, ensure_ascii=False)


def _sentence(setting: Setting) -> str:
    text = setting.description[0].upper() + setting.description[1:]
    return f"{text}." if setting.example is None else f"{text}. Not set; for example:"


def _example_value(setting: Setting) -> Any:
    return setting.value_type.format(
        setting.default if setting.example is None else setting.example
    )
