"""Rules of redaction: by the word that introduces a secret, where that secret is."""

from collections.abc import Callable
from functools import partial

from fleet_smi.model.redaction import shapes
from fleet_smi.model.redaction.line import (
    IS,
    NEXT_PLAIN_WORD,
    NEXT_WORD,
    CommandLine,
    Span,
    compiled,
)
from fleet_smi.model.redaction.programs import ARGUMENTS, PasswordFlag, password_flags

Rule = Callable[[CommandLine, int], Span | None]
"""Looks for the secret that the word at this place introduces."""

_KEY_OWNERS = (
    *("access", "account", "api", "app", "application", "auth", "encryption", "functions"),
    *("license", "master", "private", "sas", "secret", "service", "signing", "storage"),
    *("subscription", "webhook"),
)
_TOKEN_OWNERS = ("access", "api", "auth", "bearer", "id", "refresh", "secret", "session")
# Written in one word with `pass`, as in SSHPASS=; but not `bypass` or `compass`.
_PASS_OWNERS = (
    *("admin", "become", "db", "ftp", "key", "ldap", "mail", "proxy", "root", "rpc", "smtp"),
    *("ssh", "store", "sudo", "user"),
)
# The tokens of a language model are no secrets, and neither is a plain number or a switch.
_MODEL_TOKENS = (
    *("audio", "begin", "bos", "cls", "eos", "eot", "image", "mask", "pad", "sep", "sot"),
    *("special", "start", "stop", "unk", "video"),
)
_SWITCH = r"(?:\d{1,6}|true|false|yes|no|none|null)(?!\S)"
_SCHEME = r"(?:basic|bearer|digest|negotiate|token)\s(?!-)"
_LONG = r"(?=[\w+=-]{20})(?=\S{0,40}\d)"
_BASE64 = r"(?=[\w+/=]{20})(?=\S{0,40}\d)(?!/)"
_PATH = r"[/~]|\.{1,2}/|\$(?:pwd|home|[({])"
# A name as long as this before a password in a URL is a token itself.
_LONG_USER = 20


def _password(line: CommandLine, at: int) -> Span | None:
    """`--password x`, `PGPASSWORD=x`, and with fewer liberties `--pass x`, `pass: x`."""
    end = line.match(r"pass(?:w(?:or)?ds?|phrase|code)\d?", at)
    if end is not None:
        return line.span(line.value_of_name(end, at))
    before = line.before(at)
    owner = next((owner for owner in _PASS_OWNERS if before.endswith(owner)), "")
    return _common_name(line, at - len(owner), at + len("pass"))


def _short_password(line: CommandLine, at: int) -> Span | None:
    """`--pw x`, `db_pwd=x`, `Pwd=x`; but not `PWD=/home/alice`, which is a folder."""
    end = line.match(r"pwd?(?![a-z])", at)
    if end is None:
        return None
    if end - at == 3 and line.before(at)[-1:] not in ("-", "_"):  # a bare `pwd`
        start = line.match(IS, end)
        if start is not None and line.match(_PATH, start) is not None:
            return None
    return _common_name(line, at, end)


def _secret(line: CommandLine, at: int) -> Span | None:
    end = line.match(r"(?:secret|credentials?|creds)(?:[-_]?id)?\d?", at)
    return None if end is None else line.span(line.value_of_name(end, at))


def _token(line: CommandLine, at: int) -> Span | None:
    before = line.before(at)
    owner = next((owner for owner in _TOKEN_OWNERS if before.endswith(owner)), "")
    name_at = at - len(owner)
    if before[-1:] in ("-", "_") and before[:-1].endswith(_MODEL_TOKENS):
        return None
    return _common_name(line, name_at, at + len("token"))


def _key(line: CommandLine, at: int) -> Span | None:
    before = line.before(at)
    owner = before[:-1] if before[-1:] in ("-", "_") else before
    if owner.endswith(_KEY_OWNERS):
        end = line.match(r"key(?:[-_]?id)?\d?", at)
        return None if end is None else line.span(line.value_of_name(end, at))
    if line.follows_letter(at):
        return None
    # Most keys are names of fields or of columns: only a long value with digits is a secret.
    start = line.value_of_name(at + len("key"), at)
    return line.span(start) if start and line.match(_LONG, start) is not None else None


def _plain_name(line: CommandLine, at: int, *, name: str) -> Span | None:
    """`--jwt x`, `JWT=x`: a name of its own, not part of a longer word."""
    end = at + len(name)
    return None if line.match(r"[a-z]", end) is not None else _common_name(line, at, end)


def _access_token(line: CommandLine, at: int) -> Span | None:
    """`--pat x`, `GITHUB_PAT=x`; the place is that of the dash or underscore."""
    return _common_name(line, at + 1, at + len("_pat"))


def _common_name(line: CommandLine, at: int, end: int) -> Span | None:
    """A name that is also an ordinary word: it stands alone, and its value is no switch."""
    if line.follows_letter(at):
        return None
    start = line.value_of_name(end, at, NEXT_PLAIN_WORD)
    if start is None or line.match(_SWITCH, start) is not None:
        return None
    return line.span(start)


def _auth(line: CommandLine, at: int) -> Span | None:
    """`--gradio-auth name:x`, `REDISCLI_AUTH=x`, `"auth": "bmFtZTp4…"`."""
    start = line.value_of_name(at + len("auth"), at)
    span = line.span(start)
    if start is None or span is None:
        return None
    if line.before(at).endswith("rediscli_") or line.match(_BASE64, start) is not None:
        return span
    return _after(line, ":", span) if line.text.find("://", *span) < 0 else None


def _cookie(line: CommandLine, at: int) -> Span | None:
    """`Cookie: session=x`; but not the name of a file with cookies."""
    end = line.match("cookies?", at)
    span = None if end is None else line.span(line.value_of_name(end, at))
    return None if span is None else _after(line, "=", span)


def _signature(line: CommandLine, at: int, *, name: str) -> Span | None:
    """The signature of a URL, which grants access: `?sv=1&sig=x`, `X-Amz-Signature=x`."""
    if line.before(at)[-1:] not in ("?", "&", "-"):
        return None
    found = compiled(r"[^\s\"'&]+").match(line.text, at + len(name))
    return None if found is None else found.span()


def _authorization(line: CommandLine, at: int) -> Span | None:
    start = line.match("authorization" + IS, at)
    if start is None or line.follows_word(at):
        return None
    return line.span(line.match(_SCHEME, start) or start)


def _bearer(line: CommandLine, at: int) -> Span | None:
    start = line.match(r"bearer\s(?!-)", at)
    if start is None or line.follows_word(at):
        return None
    found = compiled(r"[\w.~+/=-]{8,}").match(line.text, start)
    return None if found is None else found.span()


def _url(line: CommandLine, at: int) -> Span | None:
    """`://name:secret@host`, `https://token@host`."""
    start = at + len("://")
    user = compiled(r"[^\s/:@?#]*").match(line.text, start)
    rest = compiled(r"[^\s/]*").match(line.text, start)
    if user is None or rest is None:
        return None
    end = line.text.rfind("@", user.end(), rest.end())
    secret_at = user.end() + 1
    if line.text[user.end() : secret_at] == ":" and end > secret_at:
        return start if user.end() - start >= _LONG_USER else secret_at, end
    # Without a password: over HTTP the name is a token, over ssh it is only a name.
    is_token = end >= 0 and end <= secret_at and line.before(at).endswith(("http", "https"))
    return (start, user.end()) if is_token and user.end() > start else None


def _argument(line: CommandLine, at: int, *, pattern: str) -> Span | None:
    """The argument of a command that is a secret by its position: `wandb login x`."""
    if line.follows_word(at):
        return None
    found = compiled(pattern).match(line.text, at)
    return None if found is None else found.span(1)


def flag_rules(lowered: str) -> dict[str, Rule]:
    """Return the rules for the short flags of the programs in a line."""
    flags: dict[str, list[tuple[int, PasswordFlag]]] = {}
    for first, flag in password_flags(lowered):
        word = " -" if flag.switches else f" {flag.flag.lower()}"
        flags.setdefault(word, []).append((first, flag))
    return {word: partial(_flag, flags=found) for word, found in flags.items()}


def _flag(line: CommandLine, at: int, *, flags: list[tuple[int, PasswordFlag]]) -> Span | None:
    for first, flag in flags:
        end = None if at < first else _end_of_flag(line, at + 1, flag)
        if end is None:
            continue
        start = line.match(NEXT_WORD if flag.in_next_word else r"(?!)", end)
        if start is None and flag.in_word:
            start = line.match(r"=?(?=\S)[\"']?", end)
        span = line.span(start)
        if span is not None and flag.separator:
            span = _after(line, flag.separator, span)
        if span is not None:
            return span
    return None


def _end_of_flag(line: CommandLine, at: int, flag: PasswordFlag) -> int | None:
    """Return where a flag ends that begins here, with switches before it in the same word."""
    dash, letters = flag.flag[:1], flag.flag[1:]
    switches = f"[{flag.switches}]{{0,16}}" if flag.switches else ""
    found = compiled(f"{dash}{switches}{letters}").match(line.text, at)
    return None if found is None else found.end()


def _after(line: CommandLine, separator: str, span: Span) -> Span | None:
    """The part of a value that follows the first separator."""
    at = line.text.find(separator, *span)
    return (at + 1, span[1]) if span[0] <= at < span[1] - 1 else None


RULES: dict[str, Rule] = {
    "://": _url,
    "pass": _password,
    "pw": _short_password,
    **dict.fromkeys(("secret", "credential", "creds"), _secret),
    "token": _token,
    "key": _key,
    **{name: partial(_plain_name, name=name) for name in ("jwt", "psk", "mnemonic")},
    **dict.fromkeys(("-pat ", "-pat=", "_pat="), _access_token),
    "authorization": _authorization,
    **dict.fromkeys(("auth ", "auth=", 'auth"', "auth\\"), _auth),
    "bearer": _bearer,
    "cookie": _cookie,
    **{name: partial(_signature, name=name) for name in ("sig=", "signature=")},
    **{word: partial(_argument, pattern=pattern) for word, pattern in ARGUMENTS.items()},
    **{word: partial(shapes.find_shape, pattern=form) for word, form in shapes.SHAPES.items()},
    **{word: partial(shapes.find_webhook, prefix=word) for word in shapes.WEBHOOKS},
    shapes.PRIVATE_KEY: shapes.find_private_key,
}
"""By the word that introduces a secret, in lower case."""
