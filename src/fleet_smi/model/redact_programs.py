"""Programs whose short flags carry a password: `mysql -psecret`, `curl -u name:secret`."""

from typing import NamedTuple


class PasswordFlag(NamedTuple):
    """A flag with a password: in the same word, in the next one, or in either.

    With a `separator` only what follows it is the password: `name:secret`.
    """

    flag: str
    in_word: bool = True
    in_next_word: bool = True
    separator: str = ""


_PASSWORD = PasswordFlag("-p")
_UPPER_PASSWORD = PasswordFlag("-P")
# `mysql -p secret` prompts for the password, and `secret` is the name of a database.
_ATTACHED = PasswordFlag("-p", in_next_word=False)
_CURL = tuple(PasswordFlag(flag, separator=":") for flag in ("-u", "-U", "--user", "--proxy-user"))
_HTTPIE = (PasswordFlag("-a", separator=":"), PasswordFlag("--auth", separator=":"))
# By how the program's name begins, in lower case: `mysql` is also `mysqldump`.
PROGRAMS: dict[str, tuple[PasswordFlag, ...]] = {
    "mysql": (_ATTACHED,),
    "mariadb": (_ATTACHED,),
    "7z": (_ATTACHED,),
    "rar ": (_ATTACHED,),
    "unrar ": (_ATTACHED,),
    "sshpass ": (_PASSWORD,),
    "mongo": (_PASSWORD,),
    "docker login ": (_PASSWORD,),
    "podman login ": (_PASSWORD,),
    "az login ": (_PASSWORD,),
    "zip ": (_UPPER_PASSWORD,),
    "unzip ": (_UPPER_PASSWORD,),
    "sqlcmd": (_UPPER_PASSWORD,),
    "bcp ": (_UPPER_PASSWORD,),
    "ipmitool": (_UPPER_PASSWORD,),
    "mosquitto_": (_UPPER_PASSWORD,),
    "redis-cli": (PasswordFlag("-a"),),
    "valkey-cli": (PasswordFlag("-a"),),
    "ldap": (PasswordFlag("-w"),),
    "smbclient": (PasswordFlag("-U", separator="%"),),
    "curl ": _CURL,
    "http ": _HTTPIE,
    "https ": _HTTPIE,
}
_MAX_OCCURRENCES = 8


def password_flags(lowered: str) -> list[tuple[int, PasswordFlag]]:
    """Return the password flags of the programs in a command line, each with where it may begin."""
    found: list[tuple[int, PasswordFlag]] = []
    for program, flags in PROGRAMS.items():
        end = _find_program(lowered, program)
        if end is not None:
            found += [(end, flag) for flag in flags]
    return found


def _find_program(lowered: str, program: str) -> int | None:
    """Return where the name of the program ends, `None` where it is not in the line."""
    at = -1
    for _ in range(_MAX_OCCURRENCES):
        at = lowered.find(program, at + 1)
        if at < 0:
            return None
        # Not in the middle of another word, nor as a part of a URL.
        start, end = lowered.rfind(" ", 0, at) + 1, lowered.find(" ", at)
        is_whole = at == 0 or lowered[at - 1] in " /\"'"
        if is_whole and end > 0 and ":" not in lowered[start:end]:
            return end
    return None
