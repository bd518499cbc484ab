"""Importing the settings files of older systems."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleet_smi import compat, config
from fleet_smi.cli.commands.migrate import import_settings
from fleet_smi.cli.formats import SETTINGS_FORMATS
from fleet_smi.config.importer import HostType, SettingsImporter
from fleet_smi.config.settings import HubSettings
from fleet_smi.errors import UsageError
from tests.compat.seed_samples import seed_sample

INI = "[common]\nuser = monitor\nhosts = gpu01, gpu02 ,,gpu01\nkey_filename = /etc/key\n"
YML = "tick: 3\ntimeout: 180\nrouter_ip: 10.20.0.5\nports:\n  nodes: 9080\n  clients: '9091'\n"


def taken(name: str, text: str, hosts_as: HostType = "node_info") -> SettingsImporter:
    into = SettingsImporter(hosts_as)
    import_settings(name, text, into)
    return into


def values(into: SettingsImporter, section: str = "hub") -> dict[str, object]:
    found: dict[str, object] = tomllib.loads(into.to_toml()).get(section, {})
    return found


def left(into: SettingsImporter) -> str:
    return "\n".join(remark.text for remark in into.notes if not remark.imported)


def load(into: SettingsImporter, folder: Path) -> HubSettings:
    file = folder / "fleet-smi.toml"
    file.write_text(into.to_toml(), encoding="utf-8")
    return config.load({"FLEET_SMI_CONFIG": str(file), "HOME": str(folder)}).hub


def test_every_format_is_listed_and_no_other() -> None:
    folder = Path(compat.__file__).parent
    readers = [path for path in folder.rglob("settings*.py") if "def matches(" in path.read_text()]
    paths = {".".join(path.relative_to(folder).with_suffix("").parts) for path in readers}
    assert {f"fleet_smi.compat.{path}" for path in paths} == set(SETTINGS_FORMATS)


def test_hosts_with_comments_blanks_and_ports_are_nodes_of_gpu_cluster_monitor(
    tmp_path: Path,
) -> None:
    text = "192.168.0.1\n\n# a remark\n  gpu03.lab:7081   # the new one\nfe80::1\n192.168.0.1\n"
    into = taken("hosts.txt", text)
    assert load(into, tmp_path).node_info == ("192.168.0.1", "gpu03.lab:7081", "[fe80::1]")
    assert "line 2: it is blank" in left(into)
    assert "'192.168.0.1': listed already" in left(into)
    assert "hub.node_info_password_file" in left(into)


@pytest.mark.parametrize("transport", ["ssh", "pull"])
def test_a_list_of_hosts_is_for_the_host_type_that_is_given(transport: HostType) -> None:
    into = taken("machines", "gpu01\ngpu02:2222\n", transport)
    assert values(into) == {transport: ["gpu01", "gpu02:2222"]}
    assert "password" not in left(into)


def test_a_host_that_ssh_would_take_for_a_flag_is_left() -> None:
    into = taken("hosts.txt", "-oProxyCommand=sh\nmei@gpu01\na b\n", "ssh")
    assert values(into) == {"ssh": ["mei@gpu01"]}
    assert "'-oProxyCommand=sh' is not a machine to poll" in left(into)


def test_web_gpu_monitor_becomes_ssh_with_its_user_and_key(tmp_path: Path) -> None:
    hub = load(taken("config.ini", INI), tmp_path)
    assert hub.ssh == ("monitor@gpu01", "monitor@gpu02")
    assert hub.ssh_key == "/etc/key"


def test_what_web_gpu_monitor_does_not_support_is_noted() -> None:
    into = taken("config.ini", INI + "password = 1\n")
    assert "password: web-gpu-monitor has no such setting" in left(into)
    assert "host keys: web-gpu-monitor accepts any" in left(into)


def test_nvgpu_agents_become_sources_and_self_the_hub_s_own_machine(tmp_path: Path) -> None:
    text = "# remark\nAGENTS = [\n  'self',\n  'http://gpu02:1080/',\n  'http://gpu03:1080',\n]\n"
    hub = load(taken("nvgpu_master.cfg", text), tmp_path)
    assert hub.nvgpu == ("http://gpu02:1080", "http://gpu03:1080")
    assert hub.include_self


def test_the_agents_file_of_nvgpu_is_never_executed(tmp_path: Path) -> None:
    trap = tmp_path / "run"
    text = f"import os\nos.mkdir({str(trap)!r})\nAGENTS = ['http://gpu02:1080']\nDEBUG = True\n"
    into = taken("nvgpu_master.cfg", text)
    assert not trap.exists()
    assert values(into) == {"nvgpu": ["http://gpu02:1080"]}
    assert [line.split(":")[0] for line in left(into).splitlines()] == [
        "line 1",
        "line 2",
        "line 4",
    ]


@pytest.mark.parametrize(
    ("agents", "why"),
    [
        ("[open('/etc/passwd').read()]", "it is computed"),
        ("['http://' + h for h in HOSTS]", "it is computed"),
        ("'http://gpu02:1080'", "it is not a list"),
        ("[1, 2]", "2 of them are not text"),
    ],
)
def test_agents_that_are_no_plain_list_are_left(agents: str, why: str) -> None:
    into = taken("nvgpu_master.cfg", f"AGENTS = {agents}\n")
    assert values(into) == {} and why in left(into)


def test_cluster_smi_of_2018_becomes_a_router_to_poll(tmp_path: Path) -> None:
    text = (
        '# remark\ncluster_smi_server_ip="10.20.0.5"\ncluster_smi_tick_ms="1500"\n'
        'cluster_smi_server_port_distribute="9091"\ncluster_smi_colour="red"\n'
    )
    into = taken("cluster-smi.env", text)
    hub = load(into, tmp_path)
    assert hub.cluster_smi_routers == ("10.20.0.5:9091",)
    assert hub.cluster_smi_interval == 1.5
    assert "cluster-smi has no cluster_smi_colour" in left(into)
    assert hub.cluster_smi_nodes is None, "no port is opened by taking a file over"


@pytest.mark.parametrize(
    "ports", [YML, YML.partition("ports")[0] + 'ports: {nodes: 1, "clients": 9091}']
)
def test_cluster_smi_of_2019_becomes_a_router_to_poll(ports: str, tmp_path: Path) -> None:
    into = taken("cluster-smi.yml", ports)
    hub = load(into, tmp_path)
    assert hub.cluster_smi_routers == ("10.20.0.5:9091",)
    assert hub.cluster_smi_interval == 3.0
    assert "timeout 180" in left(into)


def test_yaml_that_cannot_be_read_is_reported_with_its_line() -> None:
    into = taken("cluster-smi.yml", "router_ip: gpu01\n- a list\n? b\ncolour: red\n")
    assert "line 2: only tick, timeout, router_ip" in left(into)
    assert "line 3" in left(into) and "colour: cluster-smi has no such setting" in left(into)


def test_gpustat_web_becomes_ssh(tmp_path: Path) -> None:
    line = (
        "gpustat-web --port 48109 --ssh-port=2200 --interval 5 --no-verify-host gpu01 me@gpu02:22"
    )
    into = taken("start.sh", f"#!/bin/sh\nexec /usr/bin/{line}\n")
    hub = load(into, tmp_path)
    assert hub.ssh == ("gpu01:2200", "me@gpu02:22")
    assert hub.ssh_interval == 5.0
    assert "--no-verify-host: host keys are always verified" in left(into)
    assert "--port" in left(into) and hub.listen.host == "127.0.0.1"


def test_half_a_certificate_is_left() -> None:
    into = taken("start.sh", "gpustat-web --ssl-certfile /a.pem gpu01\n")
    assert values(into) == {"ssh": ["gpu01"]} and "one is missing" in left(into)


def test_a_crontab_of_gpustat_becomes_a_folder_to_read_and_to_write_to() -> None:
    into = taken("crontab", "*/2 * * * * /usr/bin/gpustat -pcu > /nfs/gpu/$(hostname)\n")
    assert values(into) == {"files": ["/nfs/gpu"]}
    assert values(into, "agent") == {
        "drop": "/nfs/gpu",
        "drop_format": "gpustat-text",
        "interval": "2min",
    }
    json = taken("crontab", "* * * * * gpustat --json > /nfs/gpu/$(hostname)\n")
    assert values(json, "agent")["drop_format"] == "gpustat"


def test_a_crontab_of_a_web_server_names_the_files_and_the_command_that_replaces_it() -> None:
    job = "* * * * * sleep 30 && cat /status-gpu/cml* | sh ansi2html.sh > index.html\n"
    into = taken("crontab", job + "0 3 * * * backup\n")
    assert values(into) == {"files": ["/status-gpu/cml*"]}
    assert "fleet-smi render --out DIR" in left(into)
    assert "line 2: unrelated to GPUs" in left(into)


PAGE = "`fleet-smi render --out DIR` writes the page, from cron or with --every"
CRONTAB = """\
# m h dom mon dow command
MAILTO=root
*/5 9-17 * * mon-fri gpustat -pcu > /nfs/gpu/$(hostname)
* * * * * gpustat > /nfs/gpu/all.txt
@reboot gpustat-web --port 80 gpu01 -bad
*/5 * * * * cd /srv && python3 fetch_data.py -c config.ini
0 3 * * * backup
"""


def test_every_line_of_a_crontab_is_imported_or_skipped_with_a_reason() -> None:
    into = taken("crontab", CRONTAB)
    assert [(remark.imported, remark.text) for remark in into.notes] == [
        (False, "line 2: not a cron job"),
        (True, "line 3, the folder in hub.files: /nfs/gpu"),
        (True, 'line 3, the folder as agent.drop = "/nfs/gpu"'),
        (True, 'line 3, the format as agent.drop_format = "gpustat-text"'),
        (
            False,
            "line 3, the times: only `*/N` minutes is an interval: set agent.interval",
        ),
        (
            False,
            "line 4: gpustat does not write to a file named after its host",
        ),
        (True, "line 5, hosts in hub.ssh: gpu01"),
        (
            False,
            "line 5, --port: the hub listens on this machine only, unless hub.listen is set",
        ),
        (False, "line 5, -bad: gpustat-web has no such flag"),
        (False, f"line 6, the page: {PAGE}"),
        (False, "line 7: unrelated to GPUs"),
    ]


JOBS = st.sampled_from(CRONTAB.splitlines()) | st.text(
    st.characters(exclude_categories=("C", "Z")), max_size=9
)


@given(st.lists(JOBS, max_size=6))
def test_every_line_of_a_crontab_has_a_note(jobs: list[str]) -> None:
    lines = ["* * * * * gpustat > /nfs/$(hostname)", *jobs]
    into = taken("crontab", "\n".join(lines))
    output = "\n".join(remark.text for remark in into.notes)
    for number, line in enumerate(lines, 1):
        assert line[:1] in ("", "#") or re.search(rf"\bline {number}\b", output), output


def test_lines_beside_a_call_of_gpustat_web_are_noted() -> None:
    into = taken("start.sh", "#!/bin/sh\nulimit -n 99\ngpustat-web gpu01\n")
    assert left(into) == "line 2: it does not call gpustat-web"


def test_a_section_that_web_gpu_monitor_does_not_know_is_noted() -> None:
    assert "[extra]: web-gpu-monitor has no such section" in left(
        taken("config.ini", INI + "[extra]\nkey = 1\n")
    )


@pytest.mark.parametrize("agents", ["[]", "()"])
def test_an_nvgpu_master_without_agents_is_imported_as_empty(agents: str) -> None:
    into = taken("nvgpu_master.cfg", f"AGENTS = {agents}\n")
    (remark,) = into.notes
    assert (remark.imported, remark.text) == (
        True,
        "AGENTS: it is empty: this master polls nobody",
    )
    assert tomllib.loads(into.to_toml()) == {}


def test_several_files_become_one_and_the_first_value_of_a_setting_wins() -> None:
    into = SettingsImporter("ssh")
    import_settings("config.ini", INI, into)
    import_settings("hosts.txt", "gpu03\n", into)
    import_settings("other.ini", INI.replace("/etc/key", "/other/key"), into)
    assert values(into)["ssh"] == ["monitor@gpu01", "monitor@gpu02", "gpu03"]
    assert 'hub.ssh_key is "/etc/key" already' in left(into)


@pytest.mark.parametrize("text", ["", "hello, world\n", '{"a": 1}', "[section]\nkey = 1\n"])
def test_a_file_of_unknown_format_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"notes\.md is not a known settings file"):
        taken("notes.md", text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hosts.txt", {"node_info": ["192.168.0.1", "192.168.0.2", "gpu03.lab.example.org"]}),
        ("hosts-with-traps.txt", {"node_info": ["192.168.0.1", "gpu03.lab.example.org"]}),
        (
            "web-gpu-monitor.config.ini",
            {
                "ssh": [f"gpu_monitor@gpu0{at}.lab.example.org" for at in (1, 2)],
                "ssh_key": "/home/ubuntu/.ssh/gpu_monitor",
            },
        ),
        (
            "nvgpu_master.cfg",
            {
                "include_self": True,
                "nvgpu": [f"http://gpu0{at}.lab.example.org:1080" for at in (2, 3)],
            },
        ),
        (
            "cluster-smi.env",
            {"cluster_smi_routers": ["10.20.0.5:9081"], "cluster_smi_interval": "1s"},
        ),
        (
            "cluster-smi.yml",
            {"cluster_smi_routers": ["10.20.0.5:9081"], "cluster_smi_interval": "3s"},
        ),
        ("gpustat-web.args.txt", {"ssh": ["gpu01", "monitor@gpu02:2222"], "ssh_interval": "5s"}),
        ("crontab-gpu-node.txt", {"files": ["/NFS/status-gpu"]}),
        ("crontab-web-server.txt", {"files": ["/status-gpu/cml*"]}),
    ],
)
def test_the_samples_are_imported_as_expected(
    name: str, expected: dict[str, object], tmp_path: Path
) -> None:
    into = taken(name, seed_sample(f"config/{name}").decode())
    assert values(into) == expected
    load(into, tmp_path)


PIECES = st.sampled_from(
    [
        "AGENTS = [", "'self', ", "'http://gpu02:1080'", "]\n", "[common]\n", "hosts = ", "gpu01,",
        "user = a b\n", "key_filename = ~/k\n", "cluster_smi_server_ip=", '"10.0.0.1"\n', "\n",
        "router_ip: ", "ports:\n  clients: ", "9999999\n", "tick: ", "-1\n", "gpustat-web ",
        "--ssl-keyfile ", "--interval=", "* * * * * gpustat > /nfs/$(hostname)\n", "# x\n",
        "=", "\x7f",
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=12), max_size=12).map("".join)


@settings(max_examples=200)
@given(
    st.sampled_from(["hosts.txt", "x.yml", "x"]),
    TEXTS,
    st.sampled_from(["node_info", "ssh", "pull"]),
)
@example("x", "AGENTS = " + "[" * 2000, "ssh")
@example("x", "[common]\nhosts = %(x)s\n[common", "ssh")
def test_any_text_is_refused_or_becomes_valid_settings(
    tmp_path_factory: pytest.TempPathFactory, name: str, text: str, hosts_as: HostType
) -> None:
    try:
        into = taken(name, text, hosts_as)
    except UsageError as error:
        assert "\n" not in str(error).strip()
        return
    load(into, tmp_path_factory.mktemp("any"))
