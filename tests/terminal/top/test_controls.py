"""Keys and mouse of the live screen."""

import pytest

from fleet_smi.model.fleet import FleetView
from fleet_smi.terminal.top.requests import GoTo, Quit, SendSignal, ShowPeople
from tests.terminal import samples
from tests.terminal.top.samples import Terminal


def fleet(count: int = 3) -> FleetView:
    nodes = [
        samples.node(
            f"gpu{number:02d}",
            samples.busy_gpu(0, samples.process("alice", pid=100 + number)),
            samples.gpu(1, samples.verdict("free")),
        )
        for number in range(count)
    ]
    return samples.fleet(*nodes)


def test_arrows_choose_nodes_and_gpus_and_stop_at_the_ends() -> None:
    terminal = Terminal(fleet())
    terminal.press("down", "right")
    assert "▶gpu01" in terminal.text
    assert "gpu01:1" in terminal.text
    terminal.press("end", "down", "left", "left")
    assert "gpu02:0" in terminal.text
    terminal.press("home", "up")
    assert "▶gpu00" in terminal.text


def test_the_chosen_row_stays_in_view() -> None:
    terminal = Terminal(fleet(300), 80, 24)
    terminal.press("end")
    assert "▶gpu299" in terminal.text
    terminal.press("pageup", "pageup")
    assert "▶" in "".join([line for line in terminal.lines if "gpu2" in line])


def test_enter_opens_a_node_and_escape_goes_back() -> None:
    terminal = Terminal(fleet())
    terminal.press("down", "enter")
    assert "driver 590.48.01" in terminal.text
    assert terminal.state.view == "node"
    terminal.press("escape")
    assert "▶gpu01" in terminal.text


def test_a_filter_is_typed_completed_and_cleared() -> None:
    terminal = Terminal(fleet())
    terminal.press("/")
    terminal.type("node:gpu02")
    assert [line for line in terminal.lines if "gpu00" in line] == []
    assert "2 GPUs on 1 node, 2 hidden" in terminal.text
    terminal.press("escape")
    assert "gpu00" in terminal.text
    terminal.press("/")
    terminal.type("us")
    assert "user:alice" in terminal.text
    terminal.press("down", "down", "tab", "enter")
    assert terminal.state.filter_text == "user:alice"
    assert "3 GPUs on 3 nodes" in terminal.text


def test_a_filter_with_a_mistake_names_it_and_keeps_the_last() -> None:
    terminal = Terminal(fleet())
    terminal.press("/")
    terminal.type("busy load:")
    assert "gpu00" in terminal.text
    terminal.type("x")
    assert "load is a number" in terminal.text
    assert "gpu00" in terminal.text


def test_f_shows_free_gpus_only_and_back() -> None:
    full = samples.node("gpu09", samples.busy_gpu(0, samples.process("bob")))
    terminal = Terminal(samples.fleet(*fleet().nodes, full))
    terminal.press("f")
    assert "gpu09" not in terminal.text
    terminal.press("f")
    assert "gpu09" in terminal.text


def test_s_changes_the_order_of_the_nodes() -> None:
    free = samples.node("zz", *[samples.gpu(at, samples.verdict("free")) for at in range(4)])
    terminal = Terminal(samples.fleet(*fleet().nodes, free))
    while terminal.state.sort != "free":
        terminal.press("s")
    assert terminal.data.arrangement.node_ids[0] == "id-zz"


def test_a_signal_is_sent_only_after_a_question() -> None:
    terminal = Terminal(fleet())
    assert terminal.press("t") == []
    assert "choose a process first" in terminal.text
    terminal.press("tab", "t")
    assert "Terminate 100 (python train.py" in terminal.text
    assert terminal.press("n") == []
    assert "nothing was sent" in terminal.text
    terminal.press("k")
    (sent,) = terminal.press("y")
    assert isinstance(sent, SendSignal)
    assert (sent.signal, sent.pid, sent.user) == ("KILL", 100, "alice")


def test_nothing_can_be_signalled_of_which_only_the_memory_is_known() -> None:
    hidden = samples.node("gpu01", samples.busy_gpu(0, samples.hidden_process()))
    terminal = Terminal(samples.fleet(hidden))
    terminal.press("tab", "k")
    assert "nothing is known of this process" in terminal.text
    assert terminal.state.question is None


def test_people_are_requested_and_shown() -> None:
    terminal = Terminal(fleet())
    assert terminal.press("u") == [ShowPeople(None)]
    assert "loading" in terminal.text


@pytest.mark.parametrize("key", ["y", "Q"])
def test_what_the_fleet_does_not_have_is_said(key: str) -> None:
    terminal = Terminal(fleet(), has_history=False)
    terminal.press(key)
    assert terminal.state.view == "fleet"
    assert terminal.state.message


def test_live_ends_the_past() -> None:
    terminal = Terminal(fleet())
    terminal.state.cursor = 5.0
    assert terminal.press("l") == [GoTo(None)]


def test_a_click_chooses_a_gpu_and_the_wheel_moves() -> None:
    terminal = Terminal(fleet(100), 80, 24)
    lines = terminal.lines
    row = next(at for at, line in enumerate(lines) if "gpu02" in line)
    terminal.controls.click(lines[row].index("free"), row)
    assert "▶gpu02" in terminal.text
    assert "gpu02:1" in terminal.text
    terminal.controls.wheel(1, 5, row)
    assert "▶gpu05" in terminal.text


def test_a_click_on_a_key_presses_it() -> None:
    terminal = Terminal(fleet())
    foot = terminal.lines[-1]
    assert terminal.controls.click(foot.index("quit"), terminal.state.rows - 1) == [Quit()]


def test_the_tree_has_children_below_their_parents() -> None:
    ranks = [samples.process("bob", 1.0, pid=201, parent_pid=200)]
    ranks += [samples.process("bob", 9.0, pid=300), samples.process("bob", 0.5, pid=200)]
    terminal = Terminal(samples.fleet(samples.node("n", samples.busy_gpu(0, *ranks))))
    terminal.press("T")
    pids = [line.split()[0] for line in terminal.lines if " bob " in line and "python" in line]
    assert pids == ["300", "200", "201"]
    assert "└─ python" in terminal.text
