"""The services under a real systemd: the first hours of a new admin, as the docs have them."""

import re
from pathlib import Path

from fleet_smi import __version__
from tests.systemd_machine import run_on_systemd_machine

SCRIPT = r"""
mkdir -p /etc/fleet-smi
printf '[hub]\nlisten = ":7070"\ntls = "self-signed"\n' > /etc/fleet-smi/fleet-smi.toml
hub=https://localhost:7070

fleet_smi service uninstall hub 2>&1 | said nothing_to_uninstall
sed -i s/:7070/:443/ /etc/fleet-smi/fleet-smi.toml
fleet_smi service install hub > /opt/shared/not_started 2>&1; echo $? | said not_started_code
sed -i s/:443/:7070/ /etc/fleet-smi/fleet-smi.toml

fleet_smi service install hub 2>&1 | said installed
curl -sk $hub/healthz | said first_answer
wait_for curl -skfo /dev/null $hub/healthz
curl -sk $hub/api/v1/fleet | said refused
token=$(fleet_smi hub token add --role viewer)
wait_for curl -skfo /dev/null -H "Authorization: Bearer $token" $hub/api/v1/fleet
curl -skgo /dev/null -w '%{http_code}' https://[::1]:7070/healthz | said ipv6

line=$(fleet_smi hub join-command --url $hub 2>/opt/shared/limits)
PATH=/opt/fleet-smi/bin:$PATH sh -c "$line" 2>&1 | said agent
wait_for sh -c "/opt/fleet-smi/bin/python -m fleet_smi nodes | grep -q push"
fleet_smi nodes | said nodes
ps -eo user,args | grep '[f]leet.smi' | said processes
fleet-smi agent upgrade 2>&1 | said upgrade
# The hub gets a newer version, and then one whose agent does not start.
run_hub_of() {
    printf "$1\n/opt/site\n" > "$(echo /opt/fleet-smi/lib/python*/site-packages/fleet-smi.pth)"
    systemctl restart fleet-smi-hub
}
newer() {
    cp -r /opt/src /opt/$1
    sed -i "s/^__version__ = .*/__version__ = '$1'/" /opt/$1/fleet_smi/__init__.py
    sed -i "s/^    args.join = take.*/$2/" /opt/$1/fleet_smi/cli/commands/agent.py
    run_hub_of /opt/$1
    fleet-smi agent upgrade --wait 20 2>&1
}
newer 7.8.9 "&" | said newer
newer 7.9.0 "    raise UsageError('broken')" | said broken
fleet-smi --version | said version_after
systemctl is-active fleet-smi-agent | said state_after
run_hub_of /opt/src
cat /etc/fleet-smi/agent.env | said agent_variables

useradd -m alice
runtime=/run/user/$(id -u alice)
as_alice() { runuser -u alice -- env HOME=/home/alice XDG_RUNTIME_DIR=$runtime "$@"; }
for action in "token add --role viewer" "token list" "user add bob" join-command; do
    as_alice /opt/fleet-smi/bin/python -m fleet_smi hub $action < /dev/null 2>&1
done | said without_sudo
find /home/alice/.local | said made_without_sudo

systemctl reload fleet-smi-hub
wait_for curl -skfo /dev/null $hub/healthz
systemctl show -p ActiveState -p NRestarts fleet-smi-hub | said reloaded
stat -c '%U %a' /var/lib/fleet-smi/hub/hub.db | said owner
fleet-smi service uninstall agent && fleet_smi service uninstall hub
systemctl is-active fleet-smi-hub fleet-smi-agent | said uninstalled

rm /etc/fleet-smi/fleet-smi.toml
loginctl enable-linger alice
wait_for test -d $runtime/systemd
service() { as_alice /opt/fleet-smi/bin/python -m fleet_smi service "$@" hub --user 2>&1; }
service install | said user_installed
wait_for curl -sfo /dev/null http://localhost:7070/healthz
ps -eo user,args | grep '[f]leet_smi hub' | said user_processes
line=$(as_alice /opt/fleet-smi/bin/python -m fleet_smi hub join-command --url http://localhost:7070)
as_alice env PATH=/opt/fleet-smi/bin:$PATH sh -c "$line" 2>&1 | said user_agent
ps -eo user,args | grep '[f]leet-smi agent' | said user_agent_processes
as_alice systemctl --user disable --now fleet-smi-agent
service uninstall | said user_removed
as_alice systemctl --user is-active fleet-smi-hub | said user_state
"""


def test_the_documented_services_run_under_a_real_systemd(tmp_path: Path) -> None:
    said = run_on_systemd_machine(tmp_path, SCRIPT)
    log = said.get("log", "")
    assert "gave up" not in log, log
    # A port that the service may not open is no service that runs.
    assert said["nothing_to_uninstall"] == "fleet-smi: fleet-smi-hub.service is not installed\n"
    assert said["not_started_code"] == "1\n"
    assert "has not started: `journalctl -u fleet-smi-hub.service` shows why" in said["not_started"]
    # It starts before anybody has access, says what to do, and opens without a restart.
    assert "is running" in said["installed"]
    assert said["first_answer"] != "", "it answers once it is said to run"
    assert "sudo fleet-smi hub token add --role viewer" in said["installed"]
    assert '"no_viewers"' in said["refused"]
    assert said["ipv6"] == "200"
    # The join line installs a service, and its token is nowhere to be seen.
    assert "valid for 24 hours and 100 machines" in said["limits"]
    assert "fleet-smi-agent.service is running" in said["agent"]
    assert "joined as " in said["agent"], said["agent"]
    assert ": a system service, fleet-smi" in said["agent"]
    assert " push " in said["nodes"]
    assert "fsmi_join_" not in said["processes"] + said["agent_variables"]
    (agent,) = [line for line in said["processes"].splitlines() if line.endswith("-smi agent")]
    assert agent.startswith("fleet-s+ /opt/fleet-smi-agent/")
    assert "the agent has the hub's version already" in said["upgrade"]
    assert "upgraded from 0.1.0 to 7.8.9" in said["newer"].replace(__version__, "0.1.0")
    assert "the agent is 7.8.9 as before: 7.9.0 did not report" in said["broken"]
    assert (said["version_after"], said["state_after"]) == ("fleet-smi 7.8.9\n", "active\n")
    # Beside the service, a user without sudo is told so, and gets no hub of their own.
    refusals = re.findall(r"run `sudo fleet-smi hub (\S+) …`", said["without_sudo"])
    assert refusals == ["token", "token", "user", "join-command"], said["without_sudo"]
    assert said["made_without_sudo"] == ""
    assert said["reloaded"].split() == ["NRestarts=0", "ActiveState=active"]
    assert said["owner"] == "fleet-smi 600\n"
    assert said["uninstalled"].split() == ["inactive", "inactive"]
    # A user does the same without root.
    assert "loginctl enable-linger" in said["user_installed"]
    assert said["user_processes"].startswith("alice ")
    assert ": your user's service, fleet-smi" in said["user_agent"], said["user_agent"]
    assert said["user_agent_processes"].startswith("alice ")
    assert "is removed" in said["user_removed"]
    assert said["user_state"] == "inactive\n"
