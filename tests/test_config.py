"""Settings: where they come from, which wins, and what is refused."""

from pathlib import Path

import pytest

from fleet_smi.config import SETTINGS, load
from fleet_smi.errors import UsageError
from fleet_smi.model.verdict import Thresholds


def settings_file(folder: Path, text: str) -> dict[str, str]:
    path = folder / "fleet-smi/fleet-smi.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return {"XDG_CONFIG_HOME": str(folder)}


def test_without_settings_the_defaults_hold() -> None:
    settings = load({})
    assert settings.thresholds == Thresholds()
    assert (settings.root, settings.node_name) == ("/", None)


def test_the_users_file_is_read(tmp_path: Path) -> None:
    environment = settings_file(
        tmp_path,
        '[verdict]\nidle_window = "20min"\nfree_memory = "2GiB"\nidle_percent = 5\n'
        '[node]\nname = "gpu07"\n',
    )
    settings = load(environment)
    assert settings.thresholds.idle_window_seconds == 1200
    assert settings.thresholds.free_memory_bytes == 2 << 30
    assert settings.thresholds.idle_percent == 5
    assert settings.node_name == "gpu07"


def test_the_file_below_home_is_read_where_nothing_else_is_named(tmp_path: Path) -> None:
    settings_file(tmp_path / ".config", '[node]\nname = "gpu07"\n')
    assert load({"HOME": str(tmp_path)}).node_name == "gpu07"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, '[verdict]\nidle_window = "20min"\n')
    environment["FLEET_SMI_VERDICT_IDLE_WINDOW"] = "1h"
    assert load(environment).thresholds.idle_window_seconds == 3600


def test_a_file_named_by_hand_stands_alone(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, '[node]\nname = "other"\n')
    named = tmp_path / "mine.toml"
    named.write_text("[verdict]\nsilent_after = 7\n")
    environment["FLEET_SMI_CONFIG"] = str(named)
    settings = load(environment)
    assert settings.thresholds.silent_after_intervals == 7
    assert settings.node_name is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '\n[verdict]\nidle_windov = "1h"',
            "fleet-smi.toml:3: unknown key `idle_windov` in [verdict]; did you mean `idle_window`?",
        ),
        (
            "[verdikt]\nx = 1",
            "fleet-smi.toml:1: unknown section [verdikt]; there are node, verdict",
        ),
        ("[verdict]\nzzz = 1", "there are free_memory, free_memory_fraction"),
        ('[verdict]\nfree_memory = "much"', "'much' is not a size"),
        ('[verdict]\nidle_window = "soon"', "is not a length of time"),
        ("[verdict]\nidle_percent = 200", "must lie between 0 and 100"),
        ("[verdict]\nfree_memory_fraction = 2", "must lie between 0 and 1"),
        ("[verdict]\nsilent_after = inf", "is not a number"),
        ("[verdict]\nidle_percent = true", "is not a number"),
        ("[verdict]\nsilent_after = 2.7", "must be a whole number"),
        ("[verdict]\nsilent_after = 0", "must be a whole number, at least 1"),
        ('[node]\nroot = "/no/such/folder"', "is not a folder"),
        ("name = 3", "unknown section [name]"),
        ("[verdikt]", "unknown section [verdikt]"),
        ("\nnode = 3", "fleet-smi.toml:2: [node] must be a section"),
        ("[[node]]", "[node] must be a section"),
        ('"a\\u001b[31m" = 1', "unknown section [a [31m]"),
        ('[node]\n"a\\u001b[31m" = 1', "unknown key `a [31m` in [node]"),
        (f"[node]\n{'k' * 5000} = 1", "k…` in [node]; there are name, root"),
        ("[node.name]\nx = 1", "must be text"),
        ('[node]\nname = ["/"]', "must be text"),
        ('[node]\nroot = ["/"]', "must be text"),
        ('[node]\nname = "\\u001b "', "must not be empty"),
        (f"[verdict]\nidle_percent = 0x{'f' * 5000}", "idle_percent = …: int too large"),
        (f"[verdict]\nfree_memory = 0x{'f' * 5000}", "free_memory = …: "),
        (f"[verdict]\nidle_percent = {'9' * 5000}", "fleet-smi.toml: "),
        (f"[verdict]\nidle_window = '{'9' * 5000}'", "is not a number"),
        (f"[verdict]\nidle_window{'.x' * 5000} = 1", "idle_window = "),
        (f"a = {'[' * 5000}", "fleet-smi.toml: "),
        ("[verdict", "fleet-smi.toml: "),
    ],
)
def test_a_bad_setting_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(settings_file(tmp_path, text))
    assert words in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


def test_a_file_may_start_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, '\ufeff[node]\nname = "gpu07"\n')
    assert load(environment).node_name == "gpu07"


def test_a_name_is_made_harmless() -> None:
    assert load({"FLEET_SMI_NODE_NAME": "gpu\x1b07"}).node_name == "gpu 07"
    assert len(load({"FLEET_SMI_NODE_NAME": "x" * 1000}).node_name or "") == 128


def test_a_bad_variable_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match="FLEET_SMI_VERDICT_IDLE_PERCENT"):
        load({"FLEET_SMI_VERDICT_IDLE_PERCENT": "lots"})


def test_a_misspelt_variable_is_refused_and_a_strangers_is_not() -> None:
    with pytest.raises(UsageError, match="did you mean FLEET_SMI_VERDICT_IDLE_WINDOW"):
        load({"FLEET_SMI_VERDICT_IDLE_WINDOV": "1h"})
    # As Kubernetes gives every pod beside a service of the name fleet-smi-node.
    load({"FLEET_SMI_NODE_SERVICE_HOST": "10.0.0.1", "FLEET_SMI_NODE_PORT": "tcp://10.0.0.1"})


def test_a_missing_file_named_by_hand_is_refused() -> None:
    with pytest.raises(UsageError, match="which is not a file"):
        load({"FLEET_SMI_CONFIG": "/no/such/file"})


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        load({"FLEET_SMI_CONFIG": str(path)})


def test_no_two_settings_share_a_name_or_variable() -> None:
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS)
