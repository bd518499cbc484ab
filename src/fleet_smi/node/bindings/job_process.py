"""Run a job as if it had been started directly: the same terminal, signals and exit status.

The job stays in the process group of its supervisor, so the terminal sends Ctrl-C, Ctrl-Z and
changes of size to both. The supervisor takes none of them: it passes on only what another process
sent to it alone (see `group_witness.py`), stops when the job stops, and ends as the job ends.
"""

import errno
import os
import signal
from collections.abc import Callable, Mapping
from typing import NoReturn

from fleet_smi.node.bindings.group_witness import GroupWitness

_FROM_KERNEL = 0x80  # SI_KERNEL: the terminal sent it, to the whole process group
_PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGWINCH,
    signal.SIGALRM,
)
_BLOCKED = (*_PASSED_ON, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU)
_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them; programs expect the default

_Mask = set[int | signal.Signals]


def run_job(
    command: list[str],
    environment: Mapping[str, str],
    tick: Callable[[], None],
    tick_seconds: float,
) -> int:
    """Run a program to its end and return its wait status; call `tick` now and then.

    Raise `OSError` where it cannot be started.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    witness = GroupWitness(_PASSED_ON)
    try:
        pid = _start(command, environment, mask)
        return _supervise(pid, witness, tick, tick_seconds)
    finally:
        witness.close()
        # The Ctrl-C that ended the job was sent to this process too, which must not act on it.
        while signal.sigtimedwait(_BLOCKED, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def end_like(status: int) -> int:
    """Return the exit code of a wait status; end this process by the signal that ended the job."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    import resource

    # The shell reports the signal as it would for the job itself; one core file is enough.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
    os.kill(os.getpid(), -code)
    return 128 - code


def _start(command: list[str], environment: Mapping[str, str], mask: _Mask) -> int:
    """Fork and execute; the pipe closes when the program has replaced the child."""
    failure, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        _execute(command, environment, mask, report)
    os.close(report)
    number = os.read(failure, 16)
    os.close(failure)
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), command[0])
    return pid


def _execute(
    command: list[str], environment: Mapping[str, str], mask: _Mask, report: int
) -> NoReturn:
    number = errno.ENOEXEC
    try:
        for each in _DEFAULTS:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], command, environment)  # noqa: S606  # no shell, on purpose
    except OSError as error:
        number = error.errno or number
    finally:
        # A fork must never return into its parent's code.
        os.write(report, str(number).encode())
        os._exit(127)


def _supervise(
    pid: int, witness: GroupWitness, tick: Callable[[], None], tick_seconds: float
) -> int:
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if ended and not os.WIFSTOPPED(status):
            return status
        if ended and _has_terminal():
            # As the shell expects: the job that it started has stopped. It continues both.
            os.kill(os.getpid(), signal.SIGSTOP)
            os.kill(pid, signal.SIGCONT)
            continue
        received = signal.sigtimedwait(_BLOCKED, tick_seconds)
        if received is None:
            tick()
        elif received.si_signo in _PASSED_ON and not _was_sent_to_group(received, witness):
            os.kill(pid, received.si_signo)


def _was_sent_to_group(received: signal.struct_siginfo, witness: GroupWitness) -> bool:
    """Whether a signal went to the whole process group: the job has it already."""
    # In any case the witness forgets it: the next one may be for this process alone.
    return witness.has_received(received.si_signo) or received.si_code == _FROM_KERNEL


def _has_terminal() -> bool:
    """Whether there is a terminal, and so a shell that continues what has stopped."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
