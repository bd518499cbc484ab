"""The line of the filter and the order, and the suggestions below it."""

from collections.abc import Sequence

from fleet_smi.model.units import pluralize
from fleet_smi.terminal.paint import align_left, display_width
from fleet_smi.terminal.top.arrangement import Arrangement
from fleet_smi.terminal.top.completion import Suggestion
from fleet_smi.terminal.top.line_editor import LineEditor
from fleet_smi.terminal.top.spans import TopLine, fit, marked, two_sided

MAX_SUGGESTIONS = 6
_WORD_WIDTH = 24


def filter_line(
    arrangement: Arrangement,
    text: str,
    editor: LineEditor | None,
    order: str,
    nodes: int,
    columns: int,
) -> TopLine:
    """Return the filter with its cursor, what it matches or what is wrong, and the order."""
    right: TopLine = [(f"{order}  ? help ", "dim")]
    if editor is not None:
        return two_sided([*_typed(editor, columns), *_outcome(arrangement, nodes)], right, columns)
    if not text:
        return two_sided([(" / ", "key"), ("filter", "dim")], right, columns)
    left: TopLine = [(" /", "key"), (text, "input"), *_outcome(arrangement, nodes)]
    return two_sided(left, right, columns)


def _typed(editor: LineEditor, columns: int) -> TopLine:
    # A long text scrolls, so that the cursor stays in view.
    room = max(10, columns // 2)
    start = max(0, editor.at - room)
    before, after = editor.text[start : editor.at], editor.text[editor.at :]
    return [
        (" /", "key"),
        (before, "input"),
        (after[:1] or " ", "cursor"),
        (after[1:room], "input"),
    ]


def _outcome(arrangement: Arrangement, nodes: int) -> TopLine:
    if arrangement.error is not None:
        return [(f"  {arrangement.error}", "warn")]
    if not arrangement.is_filtered:
        return []
    shown = len(arrangement.node_ids)
    found = f"  {pluralize(arrangement.matching_gpus, 'GPU')} on {pluralize(shown, 'node')}"
    hidden = nodes - shown
    return [(found + (f", {hidden} hidden" if hidden else ""), "dim")]


def suggestion_lines(found: Sequence[Suggestion], at: int, columns: int) -> list[TopLine]:
    """Return the suggestions, one per line; that at `at` is chosen."""
    width = max([_WORD_WIDTH, *[display_width(each.word) for each in found]]) + 2
    width = min(width, columns // 2)
    lines = []
    for number, each in enumerate(found):
        line = fit([(f"  {align_left(each.word, width)}", "input"), (each.meaning, "dim")], columns)
        lines.append(marked(line, "!") if number == at else line)
    return lines
