"""Hosts from lists, files and patterns of ssh_config; and names that could do harm."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import UsageError
from fleet_smi.hub import ssh_hosts
from fleet_smi.hub.ssh_config_copy import copy_system_config
from fleet_smi.hub.ssh_hosts import expand_hosts, parse_config_hosts, read_hosts_file, validate_host
from tests.machines import require_program

NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,12}", fullmatch=True)
PATTERNS = st.from_regex(r"!?[a-z0-9]{0,4}[*?][a-z0-9]{0,4}", fullmatch=True)


def no_includes(_: str) -> Iterable[str]:
    return ()


@pytest.mark.parametrize(
    "name", ["gpu01", "alice@gpu01.lab.example", "gpu01:2222", "10.0.0.7", "fd00::7", "gpu_01"]
)
def test_names_and_addresses_are_hosts(name: str) -> None:
    assert validate_host(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "-oProxyCommand=touch /tmp/x",
            "alice@-oProxyCommand",
            "-J",
            "a b",
            "a\nb",
            "a\x1b[31m",
        ),
        *(
            "gpu$(reboot)",
            "gpu`reboot`",
            "gpu;reboot",
            "gpu|x",
            "a'b",
            "%h",
            "ssh://gpu",
            "a" * 600,
        ),
    ],
)
def test_options_and_shell_metacharacters_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a host"):
        validate_host(name)


@given(st.text(max_size=20))
def test_no_valid_host_starts_like_an_option_or_contains_blanks(name: str) -> None:
    try:
        host = validate_host(name)
    except UsageError:
        return
    assert not host.startswith("-")
    assert host.isascii()
    assert host.isprintable()
    assert " " not in host


def test_a_hosts_file_may_have_comments_blank_lines_and_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text("# the lab\ngpu01\n\n  gpu02:2222  # the new one\r\ngpu01\nalice@gpu03\n")
    assert read_hosts_file(str(path)) == ["gpu01", "gpu02:2222", "alice@gpu03"]


def test_a_bad_line_of_a_hosts_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text("gpu01\n\n-oProxyCommand=x\n")
    with pytest.raises(UsageError, match=r"hosts\.txt, line 3: '-oProxyCommand=x' is not a host"):
        read_hosts_file(str(path))


def test_a_hosts_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.txt cannot be read"):
        read_hosts_file(str(tmp_path / "none.txt"))


def test_a_pattern_expands_to_the_hosts_in_ssh_config(tmp_path: Path) -> None:
    more = tmp_path / "more.conf"
    more.write_text("Host gpu10 login gpu11 # not gpu99\n  User x\nMatch host gpu50\n")
    config = tmp_path / "config"
    config.write_text(
        f"# Host gpu98\nInclude {tmp_path}/m*.conf {tmp_path}/none\n"
        'host=gpu01 "gpu02"\n  HostName 10.0.0.1\nHost gpu* !gpu97\n  User y\n'
    )
    assert expand_hosts(["gpu*"], str(config)) == ["gpu10", "gpu11", "gpu01", "gpu02"]
    assert expand_hosts(["gpu?1", "other", "gpu01"], str(config)) == ["gpu11", "gpu01", "other"]


def test_a_pattern_without_a_match_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host cpu01\nHost gpu*\n")
    with pytest.raises(UsageError, match=r"no Host in .*config matches 'gpu"):
        expand_hosts(["gpu*"], str(config))


def test_circular_includes_terminate(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host gpu01\nInclude {config}\n")
    assert expand_hosts(["gpu*"], str(config)) == ["gpu01"]


def test_a_relative_include_of_the_systems_file_is_below_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_program("ssh")
    system, home = tmp_path / "etc", tmp_path / "home"
    for folder in (system / "conf.d", home / ".ssh/conf.d"):
        folder.mkdir(parents=True)
    (system / "ssh_config").write_text("Include conf.d/*.conf\nInclude none/*\n")
    (system / "conf.d/lab.conf").write_text("Include conf.d/deep.lab\n")
    (system / "conf.d/deep.lab").write_text("Host gpu01\n  HostName 10.0.0.1\n")
    (home / ".ssh/conf.d/lab.conf").write_text("Host gpu02\n  HostName 10.0.0.2\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(ssh_hosts, "SYSTEM_CONFIG", str(system / "ssh_config"))
    assert expand_hosts(["gpu*"]) == ["gpu01"]
    # The same for ssh itself, which gets the file through an Include of ours.
    config = str(system / "ssh_config")
    copy = copy_system_config(config, tmp_path, config)
    (tmp_path / "config").write_text(f'Host *\n  BatchMode yes\n  Include "{copy}"\n')
    command = ["ssh", "-G", "-F", str(tmp_path / "config"), "gpu01"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\nhostname 10.0.0.1\n" in done.stdout
    assert copy_system_config("~/.ssh/config", tmp_path) == "~/.ssh/config"


@given(
    st.lists(st.lists(st.one_of(NAMES, PATTERNS), min_size=1, max_size=4)),
    st.sampled_from(["Host {}", "  host {}", "HOST\t{}", "Host={}", "Host = {}", 'Host "{}"']),
)
def test_all_names_of_a_config_are_found_in_order(blocks: list[list[str]], line: str) -> None:
    between = '" "' if '"' in line else " "
    text = "".join(
        line.format(between.join(message)) + "\n  User x\n\n  # Host y\n" for message in blocks
    )
    named = [word for message in blocks for word in message if "*" not in word and "?" not in word]
    assert parse_config_hosts(text, no_includes) == named


@given(st.text(max_size=200))
def test_any_text_can_be_parsed(text: str) -> None:
    assert all(parse_config_hosts(text, no_includes))
