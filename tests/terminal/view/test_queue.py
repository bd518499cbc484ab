"""The queue as a table: the reason is never cut, and hostile names change nothing."""

from fleet_smi.model.queue.entries import QueueRequest
from fleet_smi.model.queue.estimate import Expected
from fleet_smi.model.queue.view import QueueRow, QueueView
from fleet_smi.terminal.view.queue import describe_place, render
from tests.builders import NOON

WHY = "behind alice: fewer GPU-hours this week (18 to 212); 5 kept for alice on dgx02"


def row(**fields: object) -> QueueRow:
    known = {
        "id": "3f9a02bc",
        "person": "bob",
        "wants": "8 × H100",
        "why": WHY,
        "arrived_at": NOON - 720,
        "place": 2,
        "request": QueueRequest(count=8),
    }
    return QueueRow(**(known | fields))  # type: ignore[arg-type]


def shown(columns: int, *rows: QueueRow) -> list[str]:
    return render(QueueView(taken_at=NOON, rows=rows), columns).splitlines()


def test_an_empty_queue_is_one_line() -> None:
    assert shown(80) == ["nobody waits for a GPU"]


def test_the_reason_is_wrapped_where_it_is_too_long() -> None:
    expected = Expected(by=NOON + 3600, of_ten=7)
    for columns in (60, 80, 120, 200):
        lines = shown(columns, row(expected=expected, own=True))
        assert all(len(line) <= columns for line in lines)
        text = " ".join(" ".join(lines).split())
        assert "5 kept for alice" in text
        assert "7 of 10" in text
        assert "you" in lines[1]
    assert len(shown(200, row())) == 2


def test_the_names_of_others_are_only_text() -> None:
    (_, line, *_) = shown(120, row(person="../../etc\x1b[2J\npasswd" + "x" * 90, wants="a\tb"))
    assert "\x1b" not in line
    assert "../../etc [2J p…" in line


def test_the_place_is_said_with_why_and_until_when() -> None:
    text = describe_place(row(expected=Expected(by=NOON + 86_400, of_ten=8)), NOON)
    assert text.startswith(f"place 2 in the queue of the hub; {WHY}; usually by ")
    assert text.endswith(", 8 of 10")
    assert describe_place(row(place=None, why="offered dgx02:1"), NOON) == "offered dgx02:1"
