"""The script of a command line, without its arguments: "python train.py"."""

import re
from collections.abc import Iterator
from functools import lru_cache

_MAX_WORDS = 48
# The command lines of a machine are mostly the same from one sample to the next.
_CACHE_SIZE = 4096

_SCRIPT = re.compile(r"[\w.+-]{1,80}\.(?:py|ipynb|jl|r|sh|lua|pl|rb|js)", re.IGNORECASE)
_MODULE = re.compile(r"[^\W\d]\w{0,80}(?:\.\w{1,80}){0,8}")
_INTERPRETER = re.compile(
    r"(?:python|pypy|ipython|Rscript|julia|bash|dash|sh|zsh|node|perl|ruby|lua)[\d.]*"
)
_LAUNCHER = re.compile(r"torchrun|accelerate|deepspeed|horovodrun|jupyter(-\w+)?|papermill|uv")
_LAUNCHER_MODULE = re.compile(r"(?:torch\.distributed|accelerate|deepspeed)\b.*")
_SUBCOMMANDS = ("launch", "run", "notebook", "lab", "nbconvert")
# A program that is written into the command line itself.
_INLINE_CODE = re.compile(r"-[a-zA-Z]{0,8}[ce]")
_FLAGS_WITH_VALUE = ("-W", "-X")


@lru_cache(_CACHE_SIZE)
def script_command(command: str) -> str | None:
    """Return the program and the base name of the script, notebook or module that it runs.

    `None` where it runs none, or where that is not certain: what is returned is never an argument.
    """
    words = iter(command.split(maxsplit=_MAX_WORDS)[:_MAX_WORDS])
    program = _base_name(next(words, ""))
    if _SCRIPT.fullmatch(program):
        return program
    is_launcher = _LAUNCHER.fullmatch(program) is not None
    if not is_launcher and not _INTERPRETER.fullmatch(program):
        return None
    script = _find_script(words, is_launcher)
    return None if script is None else f"{program} {script}"


def _find_script(words: Iterator[str], is_launcher: bool) -> str | None:
    """Return the script in the arguments of an interpreter or a launcher: "-m vllm.server"."""
    is_after_flag = False
    for word in words:
        if word == "-m":
            module = next(words, "")
            if not _LAUNCHER_MODULE.fullmatch(module):
                return f"-m {module}" if _MODULE.fullmatch(module) else None
            is_launcher, is_after_flag = True, False
        elif word.startswith("-"):
            if not is_launcher and _INLINE_CODE.fullmatch(word):
                return None
            is_after_flag = is_launcher and "=" not in word
            if not is_launcher and word in _FLAGS_WITH_VALUE:
                next(words, "")
        elif _SCRIPT.fullmatch(name := _base_name(word)):
            return name
        elif is_after_flag or (is_launcher and word in _SUBCOMMANDS):
            is_after_flag = False  # the value of the flag
        else:
            return None
    return None


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]
