"""Signals to processes: on this machine by the kernel, on another one over ssh."""

import asyncio
import os
import signal
from pathlib import Path

from fleet_smi.errors import CollectError, FleetError
from fleet_smi.hub.ssh_program import SshProgram
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.node.bindings.process_signal import send_signal
from fleet_smi.terminal.top.requests import SendSignal

_SSH_SECONDS = 15.0
_MAX_OUTPUT, _MAX_MESSAGE = 4096, 200
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_DONE = {"TERM": "asked to end", "KILL": "killed"}
# Checked there, where it is known: the owner, and that the pid is still that of the same process.
_SCRIPT = """\
pid={pid} began={began}
owner=$(stat -c %u /proc/$pid 2>/dev/null) || {{ echo "process $pid has ended"; exit 3; }}
if [ "$(id -u)" != 0 ] && [ "$owner" != "$(id -u)" ]; then
  echo "process $pid is not yours there: only its owner or root can do that"; exit 4
fi
if [ $began != 0 ]; then
  ticks=$(sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f20)
  boot=$(sed -n 's/^btime //p' /proc/stat)
  hertz=$(getconf CLK_TCK 2>/dev/null || echo 100)
  late=$((boot + ticks / hertz - began))
  if [ $late -gt 5 ] || [ $late -lt -5 ]; then
    echo "process $pid has ended: another one has its number now"; exit 3
  fi
fi
kill -s {signal} $pid || exit 5
echo done
"""


def deliver_signal(
    request: SendSignal,
    node: NodeView | None,
    *,
    is_local: bool,
    ssh_config: str | None = None,
    ssh_key: str | None = None,
) -> str:
    """Send the signal; return a line about the outcome."""
    done = f"process {request.pid} was {_DONE[request.signal]}"
    try:
        if is_local or (node is not None and _is_this_machine(node)):
            _require_own(request)
            number = getattr(signal, f"SIG{request.signal}")
            send_signal(request.pid, number, request.started_at)
            return done
        if node is None:
            return "the node is gone"
        ssh = SshProgram(
            config=ssh_config,
            key=ssh_key,
            timeout_seconds=_SSH_SECONDS,
            max_output_bytes=_MAX_OUTPUT,
            max_concurrent=1,
        )
        problem = asyncio.run(_over_ssh(ssh, request, node.ssh_host or node.name))
    except (CollectError, FleetError) as error:
        return str(error)
    return problem or done


def _require_own(request: SendSignal) -> None:
    if os.geteuid() != 0 and request.uid is not None and request.uid != os.geteuid():
        raise CollectError(
            f"process {request.pid} is {request.user}'s: only its owner or root can do that"
        )


def _is_this_machine(node: NodeView) -> bool:
    try:
        return node.boot_id is not None and node.boot_id == Path(_BOOT_ID).read_text().strip()
    except OSError:
        return False


async def _over_ssh(ssh: SshProgram, request: SendSignal, host: str) -> str | None:
    """Run the script on the host; return what went wrong."""
    began = 0 if request.started_at is None else int(request.started_at)
    # Numbers and one of two names: nothing that a node sent gets into the script.
    script = _SCRIPT.format(pid=int(request.pid), began=began, signal=request.signal)
    if host.startswith("-"):
        return f"{host!r} is not the name of a host"
    async with ssh:
        output = await ssh.run(host, "sh -s", script.encode())
    answer = output.stdout.decode("utf-8", "replace").strip()
    if output.exit_code == 0 and answer == "done":
        return None
    why = answer or output.stderr.strip() or "no answer"
    return f"ssh {host}: {sanitize_text(why.splitlines()[-1], _MAX_MESSAGE)}"
