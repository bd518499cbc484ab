"""Screen of `fleet-smi history`: a heat strip, one row per GPU and one column per time slot."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec.structs import replace

from fleet_smi.model.fleet import FleetView, State
from fleet_smi.model.history import NO_USER, GpuOfNode, Strip, StripRun, Strips
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.terminal.paint import Paint, Span, align_left, align_right, display_width, truncate
from fleet_smi.terminal.view import time_axis
from fleet_smi.terminal.view.formatting import (
    SEPARATOR,
    STATE_ORDER,
    ToLocalTime,
    format_moment,
    format_percent,
    short_model,
    to_local_time,
)
from fleet_smi.terminal.view.holder import TextVariants, longest_fitting
from fleet_smi.terminal.view.strip_end import StripEnd, strip_end_from_runs, strip_ends

STATE_FILLS: dict[State, str] = {
    "free": "·",
    "leased": "=",
    "busy": "█",
    "held": "▒",
    "ghost": "░",
    "broken": "!",
    "unknown": "?",
}
_EDGE = "│"
_GAP = "  "
_INDEX_WIDTH, _LOAD_WIDTH = 2, 4
_MIN_LABELED_RUN = 6  # columns: a shorter run shows no user name, and an edge only if needed
_MIN_NAME_WIDTH = 6  # a name cut shorter than this is not recognisable
_WIDE, _WIDEST = 110, 160
_MIN_STRIP_COLUMNS = 8
_Line = list[Span]


def strip_columns(columns: int) -> int:
    """Return how many time slots fit on a terminal of that width, at least 8."""
    model_width, state_width = _side_widths(columns)
    sides = _label_width(model_width) + 2 * len(_GAP) + _LOAD_WIDTH + state_width
    return max(_MIN_STRIP_COLUMNS, columns - sides)


def render(
    strips: Strips,
    end_view: FleetView,
    columns: int,
    paint: Paint,
    *,
    now: float,
    local: ToLocalTime = to_local_time,
) -> str:
    """Return the whole screen, ending in a newline; no line is wider than `columns`.

    `end_view` is the fleet at the time at which the strips end.
    """
    lines = strip_lines(strips, end_view, columns, now=now, local=local)
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def strip_lines(
    strips: Strips,
    end_view: FleetView,
    columns: int,
    *,
    now: float,
    local: ToLocalTime = to_local_time,
) -> Iterator[_Line]:
    """Yield the lines of that screen as spans."""
    return _Page(strips, end_view, columns, now, local).lines()


def strip_offset(columns: int) -> int:
    """Return the column of the screen in which the strips begin."""
    return _label_width(_side_widths(columns)[0])


def _side_widths(columns: int) -> tuple[int, int]:
    """Return the widths of the model before the strip and of the final state after it."""
    if columns < _WIDE:
        return 8, 14
    return (10, 20) if columns < _WIDEST else (14, 24)


def _label_width(model_width: int) -> int:
    return _INDEX_WIDTH + 1 + model_width + len(_GAP)


class _Page:
    """All strips, laid out for one terminal width."""

    def __init__(
        self, strips: Strips, end_view: FleetView, columns: int, now: float, local: ToLocalTime
    ) -> None:
        self._strips = strips
        self._ends = strip_ends(end_view)
        self._model_width, self._state_width = _side_widths(columns)
        self._strip_width = strip_columns(columns)
        self._has_load = any(
            run.busy_percent is not None for row in strips.rows for run in row.runs
        )
        # Without any load, its column is given to the state, so that both sides stay aligned.
        if not self._has_load:
            self._state_width += _LOAD_WIDTH + len(_GAP)
        self._now = now
        self._local = local
        # The same for every node.
        ticks = time_axis.axis_ticks(strips.start, strips.end, self._strip_width, local)
        self._ticks = list(ticks)

    def lines(self) -> Iterator[_Line]:
        """Yield the rows grouped by node, then the legend."""
        rows = sorted(self._strips.rows, key=_sort_key)
        if not rows:
            yield [("No history for that time, or no GPU matches.", None)]
            return
        node_id = ""
        label = self._range_label()
        for row in rows:
            if row.gpu.node_id != node_id:
                yield self._heading(row.gpu.node, label)
                node_id, label = row.gpu.node_id, ""
            yield self._row(row)
        yield []
        yield _legend(rows, self._strips)
        begins = self._strips.history_begins
        if begins is not None:
            text = f"The history begins at {self._local(begins):%Y-%m-%d %H:%M}."
            yield [(text, "warn")]

    def _range_label(self) -> str:
        strips = self._strips
        return time_axis.range_label(strips.start, strips.end, self._now, self._local)

    def _heading(self, node: str, range_label: str) -> _Line:
        label_width = _label_width(self._model_width)
        suffix = f", {range_label}" if range_label else ""
        name = truncate(node, label_width + self._strip_width // 2 - display_width(suffix))
        # A long heading runs into the axis: the labels it would cover are left out.
        overlap = max(0, display_width(name) + display_width(suffix) - label_width)
        last = "now" if self._ends_now else ""
        axis = time_axis.axis_line(self._ticks, " " * overlap, self._strip_width, last)[overlap:]
        padding = " " * (label_width - display_width(name) - display_width(suffix))
        return [(name, "title"), (suffix + padding, None), (axis, "head")]

    @property
    def _ends_now(self) -> bool:
        return abs(self._now - self._strips.end) < max(60.0, self._column_seconds)

    @property
    def _column_seconds(self) -> float:
        return (self._strips.end - self._strips.start) / self._strips.columns

    def _row(self, row: Strip) -> _Line:
        spans = list(self._run_spans(row.runs))
        width = sum(display_width(text) for text, _ in spans)
        return [
            (_row_label(row.gpu, self._model_width), "dim" if row.gpu.parent else None),
            *spans,
            (" " * (self._strip_width - width) + _GAP, None),
            *self._end_spans(row),
        ]

    def _run_spans(self, runs: Sequence[StripRun]) -> Iterator[Span]:
        stretch: list[tuple[str, StripRun]] = []  # adjacent runs of one user
        previous: StripRun | None = None
        column = 0
        for run in runs:
            first, last = self._column(run.start), self._column(run.end)
            # Rounding can leave a short run without a column of its own.
            if last <= max(first, column):
                continue
            same_user = (
                previous is not None and first <= column and previous.user == run.user != NO_USER
            )
            if not same_user:
                yield from _named(stretch)
                stretch = []
            if first > column:
                yield " " * (first - column), None
                previous = None
            width = last - max(first, column)
            stretch.append((_run_text(run, width, previous, same_user=same_user), run))
            previous, column = run, last
        yield from _named(stretch)

    def _column(self, at: float) -> int:
        strips = self._strips
        fraction = (at - strips.start) / (strips.end - strips.start)
        return max(0, min(self._strip_width, round(fraction * self._strip_width)))

    def _end_spans(self, row: Strip) -> _Line:
        """Return load and state at the end of the strip, and since when."""
        known = self._ends.get((row.gpu.node_id, row.gpu.uuid))
        end = known or strip_end_from_runs(row.runs, self._strips)
        if end is None:
            return [self._load(""), ("no data", "unknown")]
        load = format_percent(end.busy_percent) if end.user != NO_USER else ""
        return [self._load(load), (self._state(end), end.state or "warn")]

    def _load(self, load: str) -> Span:
        """Return the load column; it is left out if no load is known at all."""
        return (align_right(load, _LOAD_WIDTH) + _GAP if self._has_load else "", None)

    def _state(self, end: StripEnd) -> str:
        """Return the state, its start if that is within the strip, and the user, as fits."""
        state: str = end.state or "silent"
        variants: TextVariants = (state,)
        if end.since is not None and end.since > self._strips.start:
            variants = self._since_variants(state, end.since)
        with_user = [
            f"{text}{SEPARATOR}{end.user}" for text in (variants[0], state) if end.user != NO_USER
        ]
        return longest_fitting((*with_user, *variants), self._state_width)

    def _since_variants(self, state: str, at: float) -> TextVariants:
        time = format_moment(at, self._now, self._local)
        day, _, time_of_day = time.partition(" ")
        variants = [f"{state} {time}", f"{state} {day}", state]
        # A time of day that today has not reached yet needs no "yesterday".
        if day == "yesterday" and self._local(at).time() > self._local(self._now).time():
            variants.insert(2, f"{state} {time_of_day}")
        return tuple(variants)


def _sort_key(row: Strip) -> tuple[object, ...]:
    gpu = row.gpu
    return natural_sort_key(gpu.node), gpu.node_id, gpu.index, gpu.parent is not None, gpu.uuid


def _row_label(gpu: GpuOfNode, model_width: int) -> str:
    words = short_model(gpu.model or "GPU").split()
    # Whole words are dropped from the end: the first one names the model.
    while len(words) > 1 and display_width(" ".join(words)) > model_width:
        words.pop()
    index = "└" if gpu.parent else str(gpu.index)
    return f"{align_right(index, _INDEX_WIDTH)} {align_left(' '.join(words), model_width)}{_GAP}"


def _run_text(run: StripRun, columns: int, previous: StripRun | None, *, same_user: bool) -> str:
    """Return one run without its user: an edge, and the fill of its state."""
    # Two runs of one state would merge into one without an edge between them.
    same_state = previous is not None and previous.state == run.state and columns > 1
    is_long = columns >= _MIN_LABELED_RUN
    edge = _EDGE if previous is not None and not same_user and (is_long or same_state) else ""
    return edge + STATE_FILLS[run.state] * (columns - len(edge))


def _named(stretch: Sequence[tuple[str, StripRun]]) -> Iterator[Span]:
    """Yield adjacent runs of one user, with their name in the first that has room for it.

    Where none has, it is written across them: a user must not disappear because their GPU was
    busy and idle by turns.
    """
    texts = [text for text, _ in stretch]
    for at, (text, run) in enumerate(stretch):
        edge = text[: text.startswith(_EDGE)]
        if len(text) < _MIN_LABELED_RUN:
            continue
        if name := _user_label(run, len(text) - len(edge) - 1):
            fill = STATE_FILLS[run.state] * (len(text) - len(edge) - display_width(name))
            texts[at] = edge + name + fill
            break
    else:
        texts = _named_across(texts, [run for _, run in stretch])
    for text, (_, run) in zip(texts, stretch, strict=True):
        yield text, run.state


def _named_across(texts: Sequence[str], runs: Sequence[StripRun]) -> list[str]:
    """Return the texts of runs, too short for a name each, with the name across them."""
    whole = "".join(texts)
    if len(texts) < 2 or len(whole) < _MIN_LABELED_RUN:
        return list(texts)
    edge = whole[: whole.startswith(_EDGE)]
    name = _user_label(replace(runs[0], busy_percent=None), len(whole) - len(edge) - 1)
    if display_width(name) != len(name):  # a wide letter cannot be cut in two
        return list(texts)
    whole = edge + name + whole[len(edge) + len(name) :]
    ends = [*accumulate(map(len, texts))]
    return [whole[end - len(text) : end] for text, end in zip(texts, ends, strict=True)]


def _user_label(run: StripRun, width: int) -> str:
    """Return user and load followed by a blank, at most `width` wide; empty without a user."""
    if run.user == NO_USER:
        return ""
    others = f"+{run.others}" if run.others else ""
    load = "" if run.busy_percent is None else f" {run.busy_percent:.0f}"
    for text in (f"{run.user}{others}{load} ", f"{run.user}{others} ", f"{run.user} "):
        if display_width(text) <= width:
            return truncate(text, width)
    fits = width >= min(_MIN_NAME_WIDTH, display_width(run.user))
    return truncate(run.user, width) if fits else ""


def _legend(rows: Iterable[Strip], strips: Strips) -> _Line:
    """Explain the characters that occur on this screen."""
    rows = tuple(rows)
    shown = {run.state for row in rows for run in row.runs}
    spans: _Line = []
    for state in STATE_ORDER:
        if state in shown:
            spans += [(STATE_FILLS[state], state), (f" {state}  ", "dim")]
    covered = sum(run.end - run.start for row in rows for run in row.runs)
    # Sums of floats are not exact: less than a thousandth missing counts as complete.
    if covered < 0.999 * len(rows) * (strips.end - strips.start):
        spans.append(("blank: no data", "dim"))
    return spans
