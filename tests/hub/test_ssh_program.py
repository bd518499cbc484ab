"""The ssh program: it ends when it likes, and that is its exit code, whatever the event loop."""

import asyncio
from pathlib import Path

import pytest
import uvloop

from fleet_smi.hub.ssh_program import SshOutput, SshProgram


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_ssh_that_ends_before_it_reads_its_input_is_no_error(
    loop_factory: type[asyncio.AbstractEventLoop],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho nobody listens >&2\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    async def run_on_many_hosts() -> list[SshOutput]:
        async with SshProgram(
            config=None, key=None, timeout_seconds=60.0, max_output_bytes=1000, max_concurrent=8
        ) as ssh:
            runs = [ssh.run(f"gpu{number:02}", "true", b"script") for number in range(16)]
            return await asyncio.gather(*runs)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        outputs = runner.run(run_on_many_hosts())
    assert outputs == [SshOutput(b"", "nobody listens\n", 255)] * 16
