"""The Ansible role on a clean Debian under a real systemd, from a wheel and from the deb."""

import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.packaging.clean_debian import clean_debian
from tests.packaging.conftest import PROJECT, debian_python
from tests.systemd_machine import run_on_systemd_machine

SCRIPT = r"""
echo 127.0.0.1 localhost > /etc/hosts
export HOME=/root LC_ALL=C.UTF-8 PYTHONPATH=/opt/shared/site ANSIBLE_NOCOLOR=1
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/opt/shared/wheels
# A hub that is not installed: the machine is that of the agent.
for deb in /opt/shared/debs/*.deb; do dpkg-deb -x $deb /opt/hub; done
hub() { env -u PYTHONPATH python3 -I -c 'import sys
sys.path.insert(0, "/opt/hub/usr/lib/fleet-smi/lib/python3/site-packages")
from fleet_smi.__main__ import main
main()' hub "$@" --state /opt/hub/state; }
hub &
wait_for curl -sfo /dev/null http://127.0.0.1:7070/readyz
printf 'fleet_smi_join_token: %s\n' $(hub token add --role join) > /root/token.yml
admin=$(hub token add --role admin)
play() { python3 -m ansible playbook -i localhost, -c local /opt/shared/ansible/site.yml \
    -e fleet_smi_hub=http://127.0.0.1:7070 -e @/root/token.yml "$@" 2>&1; }
nodes() { curl -s -H "Authorization: Bearer $admin" http://127.0.0.1:7070/api/v1/nodes; }

wheel=$(echo /opt/shared/wheel/*.whl)
play -e fleet_smi_hub=gpuhub | said unnamed
play -e fleet_smi_wheel=$wheel | said first
reports() { nodes | grep -q push; }
wait_for reports
nodes | said nodes
play -e fleet_smi_wheel=$wheel | said second
systemctl show -P ExecStart fleet-smi-agent | said command

fleet-smi service uninstall agent
hub token revoke $(nodes | python3 -c 'import json, sys
print(json.load(sys.stdin)["nodes"][0]["node_id"])') 2>&1
rm -rf /var/lib/fleet-smi /opt/fleet-smi /usr/local/bin/fleet-smi
userdel fleet-smi
play -e fleet_smi_deb=$(echo /opt/shared/debs/fleet-smi_*.deb) | said packaged
systemctl is-enabled fleet-smi-agent | said packaged_state
systemctl show -P ExecStart fleet-smi-agent | said packaged_command
ls /var/lib/fleet-smi/agent/credential.json | said credential
"""


@pytest.mark.timeout(400)
def test_the_role_installs_joins_and_starts_the_agent(
    wheel: Path, wheelhouse: Path, debs: Path, tmp_path: Path
) -> None:
    root = clean_debian()
    shutil.copytree(PROJECT / "packaging/ansible", tmp_path / "ansible")
    shutil.copytree(debs, tmp_path / "debs")
    for folder, wheels in (("wheel", [wheel]), ("wheels", wheelhouse.glob("*.whl"))):
        (tmp_path / folder).mkdir()
        for each in wheels:
            if folder == "wheel" or each.name.startswith(("msgspec", "nvidia_ml_py")):
                shutil.copy(each, tmp_path / folder)
    requirement = f"ansible-core=={version('ansible-core')}"
    install = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target")
    target = (str(tmp_path / "site"), f"--python-version=3.{debian_python()}", requirement)
    subprocess.run([*install, *target], check=True)
    said = run_on_systemd_machine(tmp_path, SCRIPT, root)
    assert "gave up" not in said["log"], said["log"]
    assert "fleet_smi_hub: name the hub, like https://gpuhub:7070" in said["unnamed"]
    assert "failed=0" in said["first"], said["first"]
    assert "changed=0 " in said["second"], "a second run changes nothing"
    assert '"push"' in said["nodes"]
    assert "/opt/fleet-smi/bin/fleet-smi agent" in said["command"]
    assert "failed=0" in said["packaged"], said["packaged"]
    assert said["packaged_state"] == "enabled\n"
    assert "path=/usr/bin/fleet-smi ;" in said["packaged_command"]
    assert said["credential"].endswith("credential.json\n")
    assert "fsmi_join_" not in "".join(said[name] for name in ("first", "second", "packaged"))
