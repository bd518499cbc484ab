"""Loading settings: sources, precedence, and what is rejected."""

import os
from pathlib import Path

import pytest
from msgspec import Struct

from fleet_smi.config import SETTINGS, load, resolve
from fleet_smi.config.settings import AgentSettings, ClientSettings, HubSettings, NodeSettings
from fleet_smi.errors import UsageError
from fleet_smi.model.verdict.judge import Thresholds


def settings_file(folder: Path, text: str) -> dict[str, str]:
    path = folder / "fleet-smi/fleet-smi.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return {"XDG_CONFIG_HOME": str(folder)}


def test_without_settings_the_defaults_hold() -> None:
    settings = load({})
    assert settings.thresholds == Thresholds()
    assert (settings.node.root, settings.node.name) == ("/", None)


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
    assert settings.node.name == "gpu07"


def test_the_file_below_home_is_read_where_nothing_else_is_named(tmp_path: Path) -> None:
    settings_file(tmp_path / ".config", '[node]\nname = "gpu07"\n')
    assert load({"HOME": str(tmp_path)}).node.name == "gpu07"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, '[verdict]\nidle_window = "20min"\n')
    environment["FLEET_SMI_VERDICT_IDLE_WINDOW"] = "1h"
    assert load(environment).thresholds.idle_window_seconds == 3600


def test_an_explicit_file_is_the_only_file_read(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, '[node]\nname = "other"\n')
    named = tmp_path / "mine.toml"
    named.write_text("[verdict]\nsilent_after = 7\n")
    environment["FLEET_SMI_CONFIG"] = str(named)
    settings = load(environment)
    assert settings.thresholds.silent_after_intervals == 7
    assert settings.node.name is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '\n[verdict]\nidle_windov = "1h"',
            "fleet-smi.toml:3: unknown key `idle_windov` in [verdict]; did you mean `idle_window`?",
        ),
        (
            "[verdikt]\nx = 1",
            "fleet-smi.toml:1: unknown section [verdikt]; did you mean [verdict]?",
        ),
        ("[verdict]\nzzz = 1", "there are free_memory, free_memory_fraction"),
        ('[verdict]\nfree_memory = "much"', "'much' is not a size"),
        ('[verdict]\nidle_window = "soon"', "is not a duration"),
        ("[verdict]\nidle_percent = 200", "must lie between 0 and 100"),
        ("[verdict]\nfree_memory_fraction = 2", "must lie between 0 and 1"),
        ("[verdict]\nsilent_after = inf", "is not a number"),
        ("[verdict]\nidle_percent = true", "is not a number"),
        ("[verdict]\nsilent_after = 2.7", "must be a whole number"),
        ("[verdict]\nsilent_after = 0", "must be a whole number, at least 1"),
        ('[node]\nroot = "/no/such/folder"', "is not a folder"),
        ("name = 3", "unknown section [name]; there are node, agent, hub, client, verdict"),
        ("[verdikt]", "unknown section [verdikt]"),
        ("\nnode = 3", "fleet-smi.toml:2: [node] must be a section"),
        ("[[node]]", "[node] must be a section"),
        ('"a\\u001b[31m" = 1', "unknown section [a [31m]"),
        ('[node]\n"a\\u001b[31m" = 1', "unknown key `a [31m` in [node]"),
        (f"[node]\n{'k' * 5000} = 1", "k…` in [node]; there are name, root, labels, commands"),
        ("[node.name]\nx = 1", "must be text"),
        ('[node]\nname = ["/"]', "must be text"),
        ('[node]\nroot = ["/"]', "must be text"),
        ('[node]\nname = "\\u001b "', "must not be empty"),
        (f"[verdict]\nidle_percent = 0x{'f' * 5000}", "idle_percent = …: is too large"),
        (f"[verdict]\nfree_memory = 0x{'f' * 5000}", "free_memory = …: "),
        (f"[verdict]\nidle_percent = {'9' * 5000}", "fleet-smi.toml: "),
        (f"[verdict]\nidle_window = '{'9' * 5000}'", "is not a number"),
        (f"[verdict]\nidle_window{'.x' * 5000} = 1", "idle_window = "),
        (f"a = {'[' * 5000}", "fleet-smi.toml: "),
        ("[verdict", "fleet-smi.toml:1: Expected ']'"),
        ("[node]\nname =\n", "fleet-smi.toml:2: Invalid value"),
        ("[node]\nname = 1\nname = 2", "fleet-smi.toml:3: Cannot overwrite a value"),
        ("[node]\n\n[node.labels]\nrack = 1", "fleet-smi.toml:3: labels = {'rack': 1}: 1 must"),
        ('[node]\nlabels."a b" = "x"', "fleet-smi.toml:2: labels = {'a b': 'x'}: 'a b' is not"),
        ("hub.listen = ':x'", "fleet-smi.toml:1: listen = ':x': is not an address"),
        ('[agent]\n"to" = "ftp://hub"', "fleet-smi.toml:2: to = 'ftp://hub': is not a URL"),
        ('[hub]\npull = [\n"a",\n"-b"]', "fleet-smi.toml:2: pull = ['a', '-b']: '-b' is not a"),
        ('[hub]\nnvgpu = ["a:0"]', "'a:0' has port 0, which cannot be connected to"),
        ('[hub]\nnvgpu = ["http://a:0/x"]', "has port 0, which cannot be connected to"),
        ('[agent]\nto = "http://hub:0"', "has port 0, which cannot be connected to"),
        ('[agent]\nget_status_password = "8888"', "get_status_password = …: is too short"),
        ('[hub]\nget_status_password = "sesame"', "everybody knows 8888; use 8 or more"),
        ("hub = { pull = 3 }", "fleet-smi.toml:1: pull = 3: must be a list"),
        ('[hub]\ntls_cert = "/c"', "fleet-smi.toml:2: tls_cert and tls_key belong together"),
    ],
)
def test_a_bad_setting_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(settings_file(tmp_path, text))
    assert message in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


def test_a_file_may_start_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, '\ufeff[node]\nname = "gpu07"\n')
    assert load(environment).node.name == "gpu07"


def test_a_name_is_made_harmless() -> None:
    assert load({"FLEET_SMI_NODE_NAME": "gpu\x1b07"}).node.name == "gpu 07"
    assert len(load({"FLEET_SMI_NODE_NAME": "x" * 1000}).node.name or "") == 128


def test_a_bad_variable_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match="FLEET_SMI_VERDICT_IDLE_PERCENT"):
        load({"FLEET_SMI_VERDICT_IDLE_PERCENT": "lots"})


@pytest.mark.parametrize("value", ["'lots'", "[]", "nan", "true"])
def test_what_is_no_number_is_called_so(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match=r"idle_percent = .*: is not a number$"):
        load(settings_file(tmp_path, f"[verdict]\nidle_percent = {value}"))


def test_a_misspelt_variable_is_refused_and_a_strangers_is_not() -> None:
    with pytest.raises(UsageError, match="did you mean FLEET_SMI_VERDICT_IDLE_WINDOW"):
        load({"FLEET_SMI_VERDICT_IDLE_WINDOV": "1h"})
    # As Kubernetes gives every pod beside a service of the name fleet-smi-node.
    load({"FLEET_SMI_NODE_SERVICE_HOST": "10.0.0.1", "FLEET_SMI_NODE_PORT": "tcp://10.0.0.1"})


def test_services_beside_it_are_no_misspelt_settings() -> None:
    # As Kubernetes names the services fleet-smi, fleet-smi-hub and fleet-smi-agent.
    parts = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_7070_TCP_ADDR")
    names = (f"FLEET_SMI_{role}{part}" for role in ("", "HUB_", "AGENT_") for part in parts)
    load(dict.fromkeys(names, "tcp://10.0.0.1"))


@pytest.mark.parametrize(
    "name, meant",
    [
        ("FLEET_SMI_INTERVAL", "FLEET_SMI_HUB_INTERVAL"),
        ("FLEET_SMI_LISTEN", "FLEET_SMI_HUB_LISTEN"),
        ("FLEET_SMI_JOIN", "FLEET_SMI_AGENT_JOIN"),
        ("FLEET_SMI_X", "FLEET_SMI_"),
    ],
)
def test_a_strict_check_finds_unknown_variables(name: str, meant: str) -> None:
    load({name: "x"})
    (problem,) = resolve({name: "x"}, strict=True).problems
    assert str(problem.origin) == name
    assert problem.message.startswith(f"unknown setting; did you mean {meant}")


def test_what_is_for_something_else_is_no_mistake() -> None:
    others = ("SIM", "SIM_STATIC", "CAPTURES", "UPDATE_GOLDEN", "DEBUG", "HUB_SERVICE_PORT_HTTP")
    assert not resolve({f"FLEET_SMI_{name}": "x" for name in others}, strict=True).problems


def test_a_misspelt_name_of_the_settings_file_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean FLEET_SMI_CONFIG"):
        load({"FLEET_SMI_CONFG": "/etc/mine.toml"})


def test_a_missing_file_named_by_hand_is_refused() -> None:
    with pytest.raises(UsageError, match="which is not a file"):
        load({"FLEET_SMI_CONFIG": "/no/such/file"})


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        load({"FLEET_SMI_CONFIG": str(path)})


def test_flags_win_and_one_that_was_not_given_says_nothing(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, '[agent]\nto = "http://a:1"\ninterval = "7s"\n')
    environment["FLEET_SMI_AGENT_TO"] = "http://b:1"
    settings = load(environment, {"agent.to": "http://c:1", "agent.interval": None})
    assert (settings.agent.to, settings.agent.interval) == ("http://c:1", 7)


def test_a_bad_flag_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match="--drop-mode: drop_mode = '0777': must be"):
        load({}, {"agent.drop_mode": "0777"})


def test_a_path_by_flag_is_meant_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load({}, {"agent.drop": "reports", "hub.files": "a,/b"})
    assert settings.agent.drop == str(tmp_path / "reports")
    assert settings.hub.files == (str(tmp_path / "a"), "/b")


def test_variables_hold_lists_and_tables_too() -> None:
    settings = load(
        {
            "FLEET_SMI_HUB_PULL": "gpu01:7071, https://gpu02:7071,",
            "FLEET_SMI_NODE_LABELS": "rack=a, room = 2",
            "FLEET_SMI_HUB_ADMINS": "",
            "FLEET_SMI_HUB_INCLUDE_SELF": "yes",
        }
    )
    assert settings.hub.pull == ("gpu01:7071", "https://gpu02:7071")
    assert settings.node.labels == {"rack": "a", "room": "2"}
    assert settings.hub.admins == ()
    assert settings.hub.include_self is True


def test_a_stronger_source_may_name_a_secret_the_other_way(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("from-file\n")
    environment = settings_file(tmp_path, f'[client]\ntoken_file = "{secret}"\n')
    assert load(environment).client.read_token() == "from-file"
    environment["FLEET_SMI_CLIENT_TOKEN"] = "from-variable"
    assert load(environment).client.read_token() == "from-variable"
    environment = settings_file(tmp_path, '[client]\ntoken = "from-settings"\n')
    environment["FLEET_SMI_CLIENT_TOKEN_FILE"] = str(secret)
    assert load(environment).client.read_token() == "from-file"


def test_one_source_may_not_name_a_secret_both_ways(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, '[agent]\njoin = "x"\njoin_file = "/x"\n')
    with pytest.raises(UsageError, match=r"toml:3: agent.join_file and agent.join cannot both"):
        load(environment)


def test_a_secret_file_is_read_only_when_it_is_needed(tmp_path: Path) -> None:
    settings = load({"FLEET_SMI_AGENT_JOIN_FILE": str(tmp_path / "none")})
    with pytest.raises(UsageError, match="none cannot be read: No such file"):
        settings.agent.read_join_token()


@pytest.mark.parametrize("text", ["", "two\nlines", "two words", "\x1b[31m", "é"])
def test_a_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    secret = tmp_path / "token"
    secret.write_text(text)
    with pytest.raises(UsageError, match="has no secret in it"):
        load({"FLEET_SMI_HUB_PULL_TOKEN_FILE": str(secret)}).hub.read_pull_token()


def test_errors_do_not_contain_secrets(tmp_path: Path) -> None:
    long = "p" * 100
    text = f'[client]\ntoken = "a hunter2"\nhub = "http://alice:hunter2{long}@hub:1"\n'
    text += f'[hub]\npull = ["http://alice:hunter2{long}@hub"]\n'
    problems = resolve(settings_file(tmp_path, text)).problems
    assert len(problems) == 3
    assert "hunter2" not in str(problems)


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    environment = settings_file(tmp_path, "[node]\nname = 1\nx = 2\n[agnet]\n")
    environment["FLEET_SMI_HUB_LISTEN"] = "nowhere"
    found = resolve(environment).problems
    file = f"{tmp_path}/fleet-smi/fleet-smi.toml"
    assert [str(problem.origin) for problem in found] == [
        f"{file}:2", f"{file}:3", f"{file}:4", "FLEET_SMI_HUB_LISTEN",
    ]  # fmt: skip


def test_state_is_in_the_system_folder_for_root_and_in_the_users_for_others() -> None:
    settings = load({"XDG_STATE_HOME": "/state"})
    folder = "/var/lib/fleet-smi" if os.geteuid() == 0 else "/state/fleet-smi"
    assert (settings.agent.state, settings.hub.state) == (f"{folder}/agent", f"{folder}/hub")


def test_no_two_settings_share_a_name_or_variable() -> None:
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    assert len({setting.environment_variable for setting in SETTINGS}) == len(SETTINGS)


@pytest.mark.parametrize(
    ("section", "group"),
    [
        ("node", NodeSettings),
        ("agent", AgentSettings),
        ("hub", HubSettings),
        ("client", ClientSettings),
    ],
)
def test_every_setting_has_its_field(section: str, group: type[Struct]) -> None:
    keys = tuple(setting.key for setting in SETTINGS if setting.section == section)
    assert group.__struct_fields__ == keys


def test_nodes_without_a_required_password_are_reported_by_a_check_only(
    tmp_path: Path,
) -> None:
    environment = settings_file(tmp_path, '[hub]\nnode_info = ["gpu01"]\n')
    assert load(environment).hub.node_info == ("gpu01",)
    (problem,) = resolve(environment, strict=True).problems
    assert str(problem.origin).endswith("fleet-smi.toml:2")
    assert "node_info_password_file" in problem.message
    environment["FLEET_SMI_HUB_NODE_INFO_PASSWORD"] = "8888"
    assert not resolve(environment, strict=True).problems


@pytest.mark.parametrize("key", ["hub.pull_tokens_file", "agent.serve_token_file"])
def test_a_file_that_a_hub_or_agent_cannot_start_without_is_reported_by_a_check_only(
    tmp_path: Path, key: str
) -> None:
    section, name = key.split(".")
    file = tmp_path / "secret"
    environment = settings_file(tmp_path, f'[{section}]\n{name} = "{file}"\n')
    load(environment)
    (problem,) = resolve(environment, strict=True).problems
    assert str(problem.origin).endswith("fleet-smi.toml:2")
    assert problem.message == f"{name}: there is no file {file}"
    file.touch()
    assert not resolve(environment, strict=True).problems


@pytest.mark.parametrize("section", ["agent", "hub"])
def test_a_password_in_a_file_must_be_long_too_and_is_not_shown(
    tmp_path: Path, section: str
) -> None:
    file = tmp_path / "password"
    file.write_text("8888\n")
    environment = settings_file(tmp_path, f'[{section}]\nget_status_password_file = "{file}"\n')
    settings = load(environment)
    with pytest.raises(UsageError, match="password is too short: everybody knows 8888"):
        getattr(settings, section).read_get_status_password()
    file.write_text("long-enough\n")
    assert getattr(settings, section).read_get_status_password() == "long-enough"


def test_a_secret_that_everybody_can_read_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("the-token\n")
    environment = settings_file(tmp_path, f'[agent]\nserve_token_file = "{file}"\n')
    file.chmod(0o640)
    assert load(environment).agent.read_serve_token() == "the-token"
    assert not caplog.messages
    file.chmod(0o644)
    assert load(environment).agent.read_serve_token() == "the-token"
    (warning,) = caplog.messages
    assert f"everybody on this machine can read {file}" in warning
    assert "the-token" not in warning
