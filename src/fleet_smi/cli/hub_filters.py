"""Filters that a hub applies: the flags of a command as its query, and what is left to do here."""

import argparse
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet_smi.model.view_options import ViewOptions

# What a regular expression for node names is made of that a pattern of the hub can say, too.
_TOKEN = re.compile(r"(\.\*)|(\.)|(\\d|\[0-9\])|\\([.*?\[\]()+^$|\\-])|([A-Za-z0-9_-])")


def hub_filters(args: argparse.Namespace) -> tuple[dict[str, str | None], "ViewOptions"]:
    """Return the filters for the hub, and the options to apply to its answer.

    A hub takes no regular expression, because some take forever to match: one that is no simple
    pattern is applied here.
    """
    from fleet_smi.model.view_options import ViewOptions, parse_node_pattern

    node = None if not args.node else regex_to_glob(args.node)
    rest = ViewOptions()
    if args.node and node is None:
        rest = ViewOptions(node=parse_node_pattern(args.node), sort=args.sort)
    filters = {"user": args.user, "node": node, "state": args.state, "filter": args.filter}
    return filters | {"sort": None if args.sort == "index" else args.sort}, rest


def regex_to_glob(regex: str) -> str | None:
    """Return the pattern that matches the names in which the expression is found, if there is one.

    >>> regex_to_glob("^gpu0.*a$"), regex_to_glob("gpu"), regex_to_glob("a|b")
    ('gpu0*a', '*gpu*', None)
    """
    start, end = regex.startswith("^"), regex.endswith("$") and not regex.endswith("\\$")
    body, glob, at = regex[start : len(regex) - end], "", 0
    while at < len(body):
        token = _TOKEN.match(body, at)
        if token is None:
            return None
        anything, any_letter, digit, escaped, plain = token.groups()
        if anything:
            glob += "*"
        elif any_letter:
            glob += "?"
        elif digit:
            glob += "[0-9]"
        else:
            letter = escaped or plain
            glob += f"[{letter}]" if letter in "*?[" else letter
        at = token.end()
    return f"{'' if start else '*'}{glob}{'' if end else '*'}"
