"""Programs with a password in short flags or arguments: `mysql -psecret`, `wandb login secret`."""

from typing import NamedTuple


class PasswordFlag(NamedTuple):
    """A flag with a password: in the same word, in the next one, or in either.

    With a `separator` only what follows it is the password: `name:secret`. `switches` are flags
    without a value, which may precede it in the same word: `-su`.
    """

    flag: str
    in_word: bool = True
    in_next_word: bool = True
    separator: str = ""
    switches: str = ""


_PASSWORD = PasswordFlag("-p")
_UPPER_PASSWORD = PasswordFlag("-P")
# `mysql -p secret` prompts for the password, and `secret` is the name of a database.
_ATTACHED = PasswordFlag("-p", in_next_word=False)
_CURL_SWITCHES = "#0-46aBfgGiIjJklLMnNOpqRsSvVZ"
_CURL = (
    *(PasswordFlag(flag, separator=":", switches=_CURL_SWITCHES) for flag in ("-u", "-U")),
    *(PasswordFlag(flag, separator=":") for flag in ("--user", "--proxy-user")),
)
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
    **dict.fromkeys(
        (
            *(
                "docker login ",
                "podman login ",
                "nerdctl login ",
                "buildah login ",
                "skopeo login ",
            ),
            *(
                "oras login ",
                "helm registry login ",
                "crane auth login ",
                "apptainer remote login ",
            ),
            *("singularity remote login ", "az login ", "oc login ", "cf login "),
            *("rdesktop ", "racadm ", "cqlsh ", "beeline "),
        ),
        (_PASSWORD,),
    ),
    "openssl enc ": (PasswordFlag("-k", in_word=False),),
    "xfreerdp ": (PasswordFlag("/p:", in_next_word=False),),
    "lftp ": (PasswordFlag("-u", separator=","),),
    "etcdctl ": (PasswordFlag("--user", separator=":"),),
    "rpcclient ": (PasswordFlag("-U", separator="%"),),
    **dict.fromkeys(
        ("snmpget ", "snmpset ", "snmpwalk "), (PasswordFlag("-A"), PasswordFlag("-X"))
    ),
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
# By how the command begins, in lower case; the first group of the pattern is the secret.
ARGUMENTS: dict[str, str] = {
    "wandb login ": r"wandb login (?:--?\S{1,80} ){0,6}([^\s-]\S{19,})",
    "vault login ": r"vault login (?:-\S{1,80} ){0,6}([^\s=-][^\s=]{7,})(?!\S)",
    "aws configure set ": r"aws configure set (?:[\w.-]{1,80}\.)?aws_\w{1,30} ([^\s-]\S{15,})",
    "add-authtoken ": r"add-authtoken ([^\s-]\S{7,})",
    "ngrok authtoken ": r"ngrok authtoken ([^\s-]\S{7,})",
    "mc alias set ": r"mc alias set \S{1,100} \S{1,400} (\S{1,400}(?: \S{1,400})?)",
    "htpasswd -": r"htpasswd -\w{0,8}b\w{0,8} \S{1,400} \S{1,100} (\S+)",
    "sqlplus ": r"sqlplus (?:-\S{1,20} ){0,4}[\w.]{1,60}/([^\s@]+)",
    "echo ": r"echo (?:-n )?[\"']?([^\s\"'|]{1,400})[\"']? ?\| ?"
    r"(?:sudo (?:-\w{1,8} ){0,4}-\w{0,8}S|(?:docker|podman) login|(?:sudo )?(?:ch)?passwd)",
}
_MAX_OCCURRENCES = 8


def password_flags(lowered: str) -> list[tuple[int, PasswordFlag]]:
    """Return the password flags of the programs in a command line, each with where it may begin."""
    found: list[tuple[int, PasswordFlag]] = []
    for program in filter(lowered.__contains__, PROGRAMS):
        end = _find_program(lowered, program)
        if end is not None:
            found += [(end, flag) for flag in PROGRAMS[program]]
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
