"""SIGTERM and SIGHUP while a command waits: it leaves the queue at once, and then ends by them."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class _Ended(BaseException):
    """A signal that ends this process; not an `Exception`, which somebody might handle."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def unwinding_signals() -> Iterator[None]:
    """Let these signals unwind the block, with all its `finally`, before they end the process.

    One that is ignored, as SIGHUP is after `nohup`, stays ignored. A second one ends it at once.
    """
    caught = [each for each in _ENDING if signal.getsignal(each) is signal.SIG_DFL]

    def unwind(number: int, _: FrameType | None) -> None:
        _restore(caught)
        raise _Ended(number)

    for each in caught:
        signal.signal(each, unwind)
    try:
        yield
    except _Ended as ended:
        os.kill(os.getpid(), ended.number)
        raise  # never: the default action ends the process
    finally:
        _restore(caught)


def reset_in_child() -> None:
    """Let these signals end a forked child at once, which has nothing to unwind."""
    _restore([each for each in _ENDING if callable(signal.getsignal(each))])


def _restore(caught: list[signal.Signals]) -> None:
    for each in caught:
        signal.signal(each, signal.SIG_DFL)
