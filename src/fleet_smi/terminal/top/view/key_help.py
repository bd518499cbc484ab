"""The keys: one line at the bottom, and the whole list of `?`."""

from collections.abc import Sequence

from fleet_smi.terminal.paint import align_left, display_width
from fleet_smi.terminal.top.spans import TopLine, fit, width_of

Keys = Sequence[tuple[str, str]]

FLEET_KEYS: Keys = (
    ("Enter", "node"),
    ("/", "filter"),
    ("f", "free"),
    ("s", "sort"),
    ("u", "people"),
    ("y", "history"),
    ("Q", "queue"),
    ("Tab", "processes"),
    ("d", "density"),
    ("?", "help"),
    ("q", "quit"),
)
NODE_KEYS: Keys = (
    ("Esc", "fleet"),
    ("Tab", "processes"),
    ("T", "tree"),
    ("S", "sort"),
    ("t", "terminate"),
    ("k", "kill"),
    ("u", "people"),
    ("y", "history"),
    ("?", "help"),
    ("q", "quit"),
)
PROCESS_KEYS: Keys = (
    ("Tab", "back"),
    ("T", "tree"),
    ("S", "sort"),
    ("t", "terminate"),
    ("k", "kill"),
    ("?", "help"),
    ("q", "quit"),
)
HISTORY_KEYS: Keys = (
    ("←→", "time"),
    ("+-", "range"),
    ("l", "live"),
    ("↑↓", "node"),
    ("Esc", "close"),
    ("?", "help"),
    ("q", "quit"),
)
TEXT_KEYS: Keys = (("Esc", "back"), ("↑↓", "scroll"), ("?", "help"), ("q", "quit"))
FILTER_KEYS: Keys = (
    ("Enter", "apply"),
    ("Tab", "complete"),
    ("↑↓", "choose"),
    ("Esc", "clear"),
)
_HELP: Sequence[tuple[str, Keys]] = (
    (
        "Move",
        (
            ("↑ ↓", "node, or process after Tab"),
            ("← →", "GPU of the node"),
            ("PgUp PgDn Home End", "further"),
            ("Enter", "one node: all GPUs and processes"),
            ("Tab", "between rows and processes"),
            ("Esc", "back; clears the filter"),
            ("mouse", "choose, scroll, click a key below"),
        ),
    ),
    (
        "Show",
        (
            ("/", "filter, as on the page: free mem>40G model:A100"),
            ("f", "free GPUs only, and back"),
            ("s", "next order of the nodes"),
            ("S", "next order of the processes"),
            ("T", "processes as a tree"),
            ("d", "one or two rows per node"),
            ("c", "next theme"),
        ),
    ),
    (
        "Views",
        (
            ("u", "people: who holds how much"),
            ("y", "history of the node; ← → go back in time"),
            ("l", "live again"),
            ("Q", "queue, if the hub has one"),
        ),
    ),
    (
        "Processes of yours",
        (
            ("t", "terminate (SIGTERM), after a question"),
            ("k", "kill (SIGKILL), after a question"),
        ),
    ),
    ("", (("?", "this help"), ("q", "quit"))),
)
_KEY_WIDTH = 20


def key_line(keys: Keys, columns: int) -> tuple[TopLine, list[tuple[int, int, str]]]:
    """Return the line of keys that fit, and the columns of each for the mouse."""
    line: TopLine = []
    places: list[tuple[int, int, str]] = []
    # Help and quit are never left out.
    ends = [pair for pair in keys if pair[0] in ("?", "q")]
    rest = [pair for pair in keys if pair[0] not in ("?", "q")]
    room = columns - sum([display_width(key) + len(name) + 3 for key, name in ends])
    shown = []
    for key, name in rest:
        width = display_width(key) + len(name) + 3
        if width > room:
            break
        room -= width
        shown.append((key, name))
    for key, name in (*shown, *ends):
        start = width_of(line)
        line += [(f" {key}", "key"), (f" {name} ", "dim")]
        places.append((start, width_of(line), key))
    return fit(line, columns), places


def help_lines(columns: int, rows: int) -> list[TopLine]:
    """Return the list of all keys; in two columns where it is too long for one."""
    sections = [_section(title, keys) for title, keys in _HELP]
    one = [line for section in sections for line in section]
    if len(one) <= rows or columns < 100:
        return [fit(line, columns) for line in one]
    half = columns // 2
    left = [line for section in sections[:1] + sections[3:] for line in section]
    right = [line for section in sections[1:3] for line in section]
    height = max(len(left), len(right))
    pad: TopLine = [("", None)]
    left += [pad] * (height - len(left))
    right += [pad] * (height - len(right))
    return [fit([*fit(a, half), *b], columns) for a, b in zip(left, right, strict=True)]


def _section(title: str, keys: Keys) -> list[TopLine]:
    lines: list[TopLine] = [[("", None)], [(f" {title}", "title")]]
    lines += [[(f"  {align_left(key, _KEY_WIDTH)}", "key"), (name, None)] for key, name in keys]
    return lines if title else lines[:1] + lines[2:]
