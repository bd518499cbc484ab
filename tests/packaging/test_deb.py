"""The Debian packages on a clean Debian under a real systemd: install, upgrade, remove, purge."""

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.machines import require_program
from tests.node.file_trees import write_tree
from tests.packaging.clean_debian import clean_debian
from tests.packaging.conftest import DEB_BUILDER
from tests.systemd_machine import run_on_systemd_machine

SCRIPT = r"""
export DEBIAN_FRONTEND=noninteractive
apt() { command apt-get -y -qq -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold "$@" 2>&1; }
state() { systemctl is-enabled fleet-smi-$1 2>&1; systemctl is-active fleet-smi-$1; }
states() { for unit in hub agent; do echo $unit $(state $unit); done; }
settings=/etc/fleet-smi/fleet-smi.toml
files() { find / -xdev | grep -Ev "^/(opt/shared|var/(log|cache|lib/dpkg|lib/apt)/)" | sort; }

echo 127.0.0.1 localhost > /etc/hosts
files > /opt/shared/files_before
cut -d: -f1 /etc/passwd /etc/group | sort > /opt/shared/names_before
apt install /opt/shared/first/fleet-smi_*.deb | said installed_light
fleet-smi --version | said version
for command in top hub; do fleet-smi $command 2>&1; done | said missing
PYTHONPATH=/opt/shared/first python3 -m fleet_smi 2>&1 | said no_public_module
apt install /opt/shared/first/*.deb | said installed
states | said first_states
fleet-smi top --help | head -1 | said top
curl -sf http://localhost:7070/healthz | said health
curl -sf http://localhost:7070/ -H 'Accept: text/html' | head -c 200 | said page

printf '[hub]\nlisten = ":7070"\n' >> $settings
systemctl restart fleet-smi-hub
fleet-smi hub join-command --url http://localhost:7070 2>&1 | said pasted
fleet-smi hub wheelhouse 2>&1 | said wheelhouse
line=$(fleet-smi hub join-command --service --url http://localhost:7070)
eval "${line/sudo /}" 2>&1 | said joined
wait_for sh -c "fleet-smi nodes 2>&1 | grep -q push"
states | said joined_states
ps -eo user:20,args | grep '[/]usr/bin/fleet-smi' | said processes
stat -c '%U %a %n' /var/lib/fleet-smi/* /etc/fleet-smi/* | said owners
test ! -e /etc/systemd/system/fleet-smi-agent.service && echo yes | said uses_packaged_unit

hub_before=$(systemctl show -P MainPID fleet-smi-hub)
apt install /opt/shared/second/*.deb | said upgraded
dpkg-query -W -f '${Version}\n' 'fleet-smi*' | said versions
states | said upgraded_states
wait_for curl -sfo /dev/null http://localhost:7070/readyz
wait_for sh -c "fleet-smi nodes 2>&1 | grep -q push"
[ "$hub_before" != "$(systemctl show -P MainPID fleet-smi-hub)" ] && echo yes | said restarted
tail -1 $settings | said settings_kept

apt remove 'fleet-smi*' | said removed
ls -d /usr/{lib,bin}/fleet-smi /var/lib/fleet-smi/hub/hub.db /etc/fleet-smi/* 2>&1 | said left
pgrep -fc '/usr/bin/fleet-smi' | said running_after_removal
apt install /opt/shared/second/*.deb | said installed_again
wait_for sh -c "fleet-smi nodes 2>&1 | grep -q push"
states | said again_states

fleet-smi service uninstall agent 2>&1 | said uninstalled
apt purge 'fleet-smi*' | said purged
systemctl daemon-reload
files > /opt/shared/files_after
cut -d: -f1 /etc/passwd /etc/group | sort > /opt/shared/names_after
systemctl list-units --all --no-legend '*fleet*' | said units_after
"""


@pytest.fixture(scope="module")
def later_debs(debs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages of a later version."""
    require_program("ar")
    folder = tmp_path_factory.mktemp("second")
    for archive in debs.glob("*.deb"):
        release_again(archive, folder)
    return folder


def release_again(archive: Path, out: Path) -> None:
    """Make a later version of a package; that of the commands has another settings file."""
    later = out / archive.name.replace("-1_", "-2_")
    if archive.name.startswith("fleet-smi_"):
        folder = out / "files"
        subprocess.run(["dpkg-deb", "--raw-extract", archive, folder], check=True)
        settings = folder / "etc/fleet-smi/fleet-smi.toml"
        settings.write_text("# The later version has another text.\n" + settings.read_text())
        subprocess.run(["dpkg-deb", "-Znone", "--build", folder, later], check=True)
    else:
        later.write_bytes(archive.read_bytes())
    control = out / "control"
    subprocess.run(["dpkg-deb", "--control", later, control], check=True)
    file = control / "control"
    file.write_text(re.sub(r"(0\.[\d.]+)-1\b", r"\1-2", file.read_text()))
    subprocess.run(["tar", "-C", control, "-cf", out / "control.tar", "."], check=True)
    # In its place: the archive has its parts in an order.
    subprocess.run(["ar", "r", later, out / "control.tar"], check=True)
    shutil.rmtree(control)


def test_modules_of_several_pythons_lie_side_by_side(tmp_path: Path) -> None:
    builder = runpy.run_path(str(DEB_BUILDER))
    target = tmp_path / "modules"
    for number in (10, 11):
        module = f"fast/core.cpython-3{number}.so"
        files = {
            module: "compiled",
            "fast/__init__.py": "pure",
            "fast/tests/test_core.py": "for developers",
            "fast-1.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: cp3{number}\n\n",
        }
        files["fast-1.dist-info/RECORD"] = "".join(f"{name},,\n" for name in list(files)[:3])
        write_tree(tmp_path / str(number), files)
        builder["merge"](tmp_path / str(number), target)
    builder["trim_lists"](target)
    wheel, record = (
        (target / "fast-1.dist-info" / name).read_text() for name in ("WHEEL", "RECORD")
    )
    assert wheel.splitlines() == ["Wheel-Version: 1.0", "Tag: cp310", "Tag: cp311"]
    listed = {line.removesuffix(",,") for line in record.splitlines()}
    assert listed == {"fast/__init__.py", *(f"fast/core.cpython-3{n}.so" for n in (10, 11))}
    write_tree(tmp_path / "12", {"fast/__init__.py": "for 3.12 alone"})
    with pytest.raises(SystemExit, match=r"fast/__init__\.py differs between versions of Python"):
        builder["merge"](tmp_path / "12", target)


@pytest.mark.timeout(400)
def test_the_packages_are_installed_upgraded_removed_and_purged(
    debs: Path, later_debs: Path, tmp_path: Path
) -> None:
    root = clean_debian()
    for name, folder in (("first", debs), ("second", later_debs)):
        (tmp_path / name).mkdir()
        for archive in folder.glob("*.deb"):
            (tmp_path / name / archive.name).hardlink_to(archive)
    said = run_on_systemd_machine(tmp_path, SCRIPT, root)
    log = said.get("log", "")
    assert "gave up" not in log, log
    # A hub runs at once, for its machine alone; an agent once it has joined one.
    assert said["first_states"] == "hub enabled active\nagent disabled inactive\n"
    assert said["version"].startswith("fleet-smi ")
    for command in ("top", "hub"):
        assert f"not installed: sudo apt install fleet-smi-{command}\n" in said["missing"]
    assert "No module named fleet_smi" in said["no_public_module"]
    assert '"ok"' in said["health"]
    assert said["page"].lower().startswith("<!doctype html>")
    assert "fleet-smi-agent.service is running" in said["joined"]
    # It hands out agents to nodes without internet.
    assert "/install" in said["pasted"], said["pasted"]
    assert "msgspec" in said["wheelhouse"], said["wheelhouse"]
    assert said["joined_states"] == "hub enabled active\nagent enabled active\n"
    users = {line.split()[0] for line in said["processes"].splitlines()}
    assert users == {"fleet-smi", "fleet-smi-hub"}
    assert said["uses_packaged_unit"] == "yes\n"
    for line in ("fleet-smi 700 /var/lib/fleet-smi/agent", "root 600 /etc/fleet-smi/agent.env"):
        assert line in said["owners"].splitlines()
    # An upgrade restarts both, and keeps settings, state and the credential of the node.
    assert [version[-2:] for version in said["versions"].split()] == ["-2"] * 3
    assert said["upgraded_states"] == said["joined_states"]
    assert said["restarted"] == "yes\n"
    assert said["settings_kept"] == 'listen = ":7070"\n'
    # Removed, it can come back; purged, nothing is left.
    assert "No such file or directory" in said["left"]
    assert {line for line in said["left"].splitlines() if line.startswith("/")} == {
        "/etc/fleet-smi/agent.env",
        "/etc/fleet-smi/fleet-smi.toml",
        "/etc/fleet-smi/fleet-smi.toml.dpkg-dist",
        "/var/lib/fleet-smi/hub/hub.db",
    }
    assert said["running_after_removal"] == "0\n"
    assert said["again_states"] == said["joined_states"]
    assert "stopped and disabled; its package" in said["uninstalled"]
    before, after = (set(said[f"files_{when}"].splitlines()) for when in ("before", "after"))
    assert sorted(after - before) == []
    assert said["names_after"] == said["names_before"]
    assert said["units_after"] == ""
    for step in ("installed", "upgraded", "removed", "installed_again", "purged"):
        assert "warning" not in said[step].lower(), said[step]
