"""Entry point of `python -m fleet_smi`, `fleet-smi` and `fsmi`."""

import codecs
import os
import signal
import sys
from types import FrameType

_IMPORT_POLL_SECONDS = 0.01


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        # A shell script ignores it for what it runs in the background.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupt)
        signal.signal(signal.SIGALRM, _interrupt)
        _open_streams()
        sys.meta_path.insert(0, _QuickMsgspec)
        from fleet_smi.cli.main import main as run

        code = run(sys.argv[1:])
        sys.stderr.flush()
    except KeyboardInterrupt:  # during the imports, before the command's own handler
        code = 130
    # Everything is flushed; the interpreter's shutdown would take another 5 ms.
    os._exit(code)


class _QuickMsgspec:
    """Import finder that hides `typing_extensions` from msgspec, and from nothing else.

    Where it is not installed, msgspec takes the same functions from `typing`. It takes longer to
    import than msgspec itself, which every command needs.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Find nothing; raise `ModuleNotFoundError` where msgspec imports that module."""
        frame = sys._getframe() if name == "typing_extensions" else None
        while frame is not None:
            if frame.f_globals.get("__name__") == "msgspec._utils":
                raise ModuleNotFoundError(name=name)
            frame = frame.f_back


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, but not within an import.

    Extension modules swallow what is raised while they import others, and the command would run
    on. So an interrupt that comes during an import is raised by a timer, after it.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            signal.setitimer(signal.ITIMER_REAL, _IMPORT_POLL_SECONDS)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _open_streams() -> None:
    """Make sure that descriptors 0 to 2 are open.

    Where the caller closed one, the next pipe we open would get its number, and output would
    go into the pipe of the reader process.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        else:
            codecs.register_error("fleet-smi", _substitute)
            stream.reconfigure(errors="fleet-smi")
            # Python writes UTF-8 in the C locale; a terminal that was set to it does not draw that.
            if stream.encoding.lower() == "utf-8" and not _locale_has_utf8():
                stream.reconfigure(encoding="ascii", errors="fleet-smi")


def _locale_has_utf8() -> bool:
    """Whether the user's locale has UTF-8; without any locale, or with Python's own choice, yes."""
    environ = _initial_environment()
    if environ.get(b"PYTHONIOENCODING") or environ.get(b"PYTHONUTF8") == b"1":
        return True
    values = [environ.get(name) for name in (b"LC_ALL", b"LC_CTYPE", b"LANG")]
    locale = next(filter(None, values), b"UTF-8")
    return b"utf8" in locale.lower().replace(b"-", b"")


def _initial_environment() -> dict[bytes, bytes]:
    """The environment as it was at the start: in the C locale Python changes LC_CTYPE (PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return dict([entry.split(b"=", 1) for entry in entries if b"=" in entry])


def _substitute(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the output encoding lacks: an unknown value stays a dash."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    # Imported only then: nearly all terminals have UTF-8.
    from fleet_smi.terminal.ascii_text import SUBSTITUTES

    text = error.object[error.start : error.end]
    return "".join(SUBSTITUTES.get(character, "?") for character in text), error.end


if __name__ == "__main__":
    main()
