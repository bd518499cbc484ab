"""The images: built from a clean Debian without network, and run as the docs run them."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_smi import config
from fleet_smi.cli.main import build_parser
from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.docs.pages import code_blocks, page
from tests.machines import UserProcesses, wait_until
from tests.packaging.cache import cache_folder
from tests.packaging.clean_debian import clean_debian
from tests.packaging.conftest import PROJECT
from tests.packaging.podman import Podman

CONTAINERFILE = PROJECT / "packaging/container/Containerfile"
HUB, AGENT = "localhost/fleet-smi-hub", "localhost/fleet-smi-agent"
URL = "https://gpuhub:7070"
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def podman(
    wheel: Path, wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Podman]:
    """Podman with both images, and a network for their containers."""
    root = clean_debian()
    folder = tmp_path_factory.mktemp("containers")
    started = Podman(cache_folder() / f"images-{root.name}", folder)
    context = folder / "context"
    shutil.copytree(PROJECT / "requirements/lock", context / "requirements/lock")
    shutil.copytree(wheelhouse, context / "dist/wheelhouse")
    shutil.copy(wheel, context / "dist")
    shutil.copy(PROJECT / ".dockerignore", context)
    base = f"localhost/{root.name}"
    try:
        started.import_root(root, base)
        for image in (HUB, AGENT):
            target = image.rpartition("-")[2]
            arguments = (f"--build-arg=BASE={base}", "--build-arg=PIP_NO_INDEX=1")
            started.run(
                *("build", "--layers=false", "--network=none", *arguments),
                *("--target", target, "-t", image, "-f", str(CONTAINERFILE), str(context)),
            )
        idle = ("--infra-image", base, "--infra-command", "sleep infinity")
        started.run("pod", "create", *idle, "--network", "none", started.pod)
        yield started
    finally:
        started.close()


def documented(start: str) -> list[str]:
    """The arguments of a documented `docker` command that starts like this."""
    text = "\n".join(code_blocks(page("docs/containers.md"), "sh")).replace("\\\n", " ")
    (line,) = [line for line in text.splitlines() if re.search(rf"(^|\| ){start}", line)]
    return shlex.split(line.rpartition("| ")[2])[1:]


class Commands:
    """Runs documented commands, with what is different here."""

    def __init__(self, podman: Podman, folder: Path) -> None:
        self._podman = podman
        self._replaced = {
            "/etc/machine-id:/etc/machine-id:ro": f"{folder / 'machine-id'}:/etc/machine-id:ro",
            "fleet-smi-hub": HUB,
            "fleet-smi-agent": AGENT,
            "$HOSTNAME": "gpu01",
        }
        (folder / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
        self._hosts = folder / "hosts"
        self._hosts.write_text("127.0.0.1 localhost gpuhub\n")
        self._simulated = (f"-v={folder}:/sim:ro", "-e=LD_LIBRARY_PATH=/sim/driver")

    def run(self, start: str, stdin: str = "", **replaced: str) -> str:
        """Run the command; `name=value` replaces a word, or the end of one."""
        words = documented(start)
        is_run = words[0] == "run"
        gpus = () if "--gpus" not in words else (*self._simulated, "-e=FLEET_SMI_SIM=/sim/scenario")
        _drop(words, "--gpus", "-p")
        # The image is named after the container, whose name is left as it is.
        image = max(i for i, word in enumerate(words) if word.startswith("fleet-smi-"))
        words[image] = self._replaced[words[image]] if is_run else words[image]
        words = [self._replaced.get(word, word) if "/" in word else word for word in words]
        text = {"sha256:…": replaced.get("fingerprint", ""), "$HOSTNAME": "gpu01", "-it": "-i"}
        for old, new in text.items():
            words = [word.replace(old, new) for word in words]
        place = ("--pod", self._podman.pod, f"-v={self._hosts}:/etc/hosts:ro") if is_run else ()
        return self._podman.run(words[0], *place, *gpus, *words[1:], stdin=stdin)


def _drop(words: list[str], *flags: str) -> None:
    for flag in flags:
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]


def status(podman: Podman, name: str) -> dict[str, str]:
    """The status of a container's main process, as the kernel tells."""
    pid = podman.inspect(name)["State"]["Pid"]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def fleet(podman: Podman, token: str, fingerprint: str) -> dict[str, Any]:
    """The fleet as a command in the hub's container sees it; empty if it gets no answer."""
    variables = {"TOKEN": token, "FINGERPRINT": fingerprint, "HUB": URL}
    flags = [f"-e=FLEET_SMI_CLIENT_{name}={value}" for name, value in variables.items()]
    done = podman.attempt("exec", *flags, "fleet-smi-hub", "fleet-smi", "--json")
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {}


@pytest.mark.timeout(600)
def test_the_documented_containers_make_a_fleet(
    podman: Podman, people: UserProcesses, sim_lib: Path, tmp_path: Path
) -> None:
    shutil.copytree(sim_lib, tmp_path / "driver")
    tmp_path.chmod(0o755)
    work = SimProcess(pid=people.start("sleep", "654", user="games"), memory=59 * GIB, sm=95)
    gpus = [SimGpu(memory_used=60 * GIB, util_gpu=96, processes=[work]), SimGpu()]
    Scenario(gpus=gpus).write(tmp_path / "scenario")
    commands = Commands(podman, tmp_path)
    commands.run("docker run -d --name fleet-smi-hub")
    ready = ("fleet-smi-hub", "python3", "-c", READY)
    wait_until(lambda: podman.attempt("exec", *ready).returncode == 0)
    commands.run("docker exec -it fleet-smi-hub", stdin=f"{PASSWORD}\n")
    line = commands.run("docker exec fleet-smi-hub fleet-smi hub join-command")
    match = re.fullmatch(r"echo (\S+) \| fleet-smi agent .* --fingerprint (sha256:\w+)\n", line)
    assert match, line
    token, fingerprint = match.groups()
    commands.run("docker run -i", stdin=f"{token}\n", fingerprint=fingerprint)
    commands.run("docker run -d --name fleet-smi-agent", fingerprint=fingerprint)
    viewer = podman.run(
        *("exec", "fleet-smi-hub", "fleet-smi", "hub", "token", "add", "--role", "admin")
    ).strip()
    wait_until(lambda: "busy" in str(fleet(podman, viewer, fingerprint)))
    (node,) = fleet(podman, viewer, fingerprint)["nodes"]
    assert node["name"] == "gpu01"
    (process,) = node["gpus"][0]["processes"]
    # Through the host's processes and names.
    assert (process["user"], process["command"]) == ("games", "sleep 654")
    for name in ("fleet-smi-hub", "fleet-smi-agent"):
        running = status(podman, name)
        assert running["Uid"].split() == ["65532"] * 4
        assert {running[f"Cap{kind}"] for kind in ("Prm", "Eff", "Bnd")} == {"0" * 16}
        assert (running["NoNewPrivs"], running["Seccomp"]) == ("1", "2")
        assert podman.attempt("exec", name, "touch", "/opt/x").returncode != 0
    # They end on SIGTERM, and start again with what their volumes have.
    for name in ("fleet-smi-agent", "fleet-smi-hub"):
        podman.run("stop", "--time", "60", name)
        assert podman.inspect(name)["State"]["ExitCode"] == 0
    for name in ("fleet-smi-hub", "fleet-smi-agent"):
        podman.run("start", name)
    wait_until(lambda: podman.attempt("exec", *ready).returncode == 0)
    agent_log = podman.run("logs", "fleet-smi-agent")
    wait_until(lambda: "busy" in str(fleet(podman, viewer, fingerprint)))
    assert "already has a credential" not in agent_log


def test_compose_runs_the_same_containers() -> None:
    compose = yaml.safe_load((CONTAINERFILE.parent / "compose.yaml").read_text())
    services = compose["services"]
    environment: dict[str, str] = {}
    for name, service in services.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("pid") == ("host" if name == "agent" else None)
        assert "privileged" not in service
        environment |= service.get("environment", {})
        if "build" in service:
            target = service["build"]["target"]
            assert re.search(rf"^FROM .* AS {target}$", CONTAINERFILE.read_text(), re.MULTILINE)
            assert service["image"] == f"fleet-smi-{target}"
            assert (CONTAINERFILE.parent / service["build"]["context"]).resolve() == PROJECT
    config.resolve(environment | {"FLEET_SMI_NODE_NAME": "gpu01"}).raise_if_invalid()
    assert set(environment) <= {setting.environment_variable for setting in config.SETTINGS}
    role, *arguments = services["join-token"]["command"]
    assert build_parser(role).parse_args(arguments).secret_file == "/run/secrets/join-token"
    mounts = shlex.join(documented("docker run -d --name fleet-smi-agent"))
    for volume in services["agent"]["volumes"]:
        assert volume.removeprefix("agent:") in mounts


READY = """
import ssl, urllib.request
context = ssl._create_unverified_context()
for path in ("healthz", "readyz"):
    urllib.request.urlopen(f"https://127.0.0.1:7070/{path}", timeout=5, context=context)
"""
