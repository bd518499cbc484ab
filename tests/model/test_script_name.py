"""The script of a command line is found; an argument is never taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.script_name import script_command


@pytest.mark.parametrize(
    ("command", "shown"),
    {
        "python /home/alice/x/train.py --data /secret": "python train.py",
        "/opt/conda/bin/python3.11 -u -W ignore eval.py a.py": "python3.11 eval.py",
        "python -m vllm.server --api-key x": "python -m vllm.server",
        "python -m torch.distributed.run --nproc_per_node 8 sft.py --x": "python sft.py",
        "torchrun --nproc_per_node=8 --port 29500 pretrain.py -c a.py": "torchrun pretrain.py",
        "accelerate launch --config_file a.yaml tune.py": "accelerate tune.py",
        "python -m ipykernel_launcher -f /run/kernel-1.json": "python -m ipykernel_launcher",
        "jupyter notebook thesis.ipynb": "jupyter thesis.ipynb",
        "./run.sh --all": "run.sh",
    }.items(),
)
def test_the_script_is_shown_without_path_and_arguments(command: str, shown: str) -> None:
    assert script_command(command) == shown
    assert script_command(shown) == shown


@pytest.mark.parametrize(
    "command",
    [
        "",
        "python",
        "python -c import('x.py')",
        "bash -lc /secret/run.sh",
        "python train --data secret.py",
        "./a.out secret.py",
        "/usr/lib/xorg/Xorg vt2",
        "python -m 'weird module'",
        "torchrun main --file secret.py",
    ],
)
def test_where_it_is_not_certain_nothing_is_shown(command: str) -> None:
    assert script_command(command) is None


@given(st.text())
def test_any_text_is_a_command(command: str) -> None:
    shown = script_command(command)
    assert shown is None or script_command(shown) == shown
