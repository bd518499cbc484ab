"""Secrets that are recognised by their form: tokens of known services, private keys, webhooks."""

from fleet_smi.model.redaction.line import CommandLine, Span, compiled

# By how each begins, in lower case; the patterns are case-sensitive.
SHAPES: dict[str, str] = {
    "akia": r"AKIA[0-9A-Z]{16}",
    "asia": r"ASIA[0-9A-Z]{16}",
    "hf_": r"hf_[A-Za-z0-9]{20}",
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[oprsu]_[A-Za-z0-9]{20}"),
    "github_pat_": r"github_pat_\w{20}",
    "glpat-": r"glpat-[\w-]{20}",
    # With an upper-case letter and a digit: names of environments begin like this too.
    "sk-": r"sk-(?:(?:[a-z0-9]{2,8}-){0,2}[A-Za-z0-9_]{20}"
    r"|(?=[\w-]{0,99}[A-Z])(?=[\w-]{0,99}\d)[\w-]{30})",
    **dict.fromkeys(("sk_live_", "sk_test_"), r"sk_[a-z]{4}_[A-Za-z0-9]{16}"),
    **dict.fromkeys(("rk_live_", "rk_test_"), r"rk_[a-z]{4}_[A-Za-z0-9]{16}"),
    "xox": r"xox[a-z]-[\w-]{10}",
    "aiza": r"AIza[\w-]{30}",
    "ya29.": r"ya29\.[\w-]{20}",
    "nvapi-": r"nvapi-[\w-]{20}",
    "gsk_": r"gsk_[A-Za-z0-9]{20}",
    "r8_": r"r8_[A-Za-z0-9]{30}",
    "wandb_v1_": r"wandb_v1_\w{20}",
    "dapi": r"dapi[0-9a-f]{32}",
    "hvs.": r"hvs\.[\w-]{20}",
    "npm_": r"npm_[A-Za-z0-9]{30}",
    "pypi-": r"pypi-[\w-]{40}",
    "sg.": r"SG\.[\w-]{16,64}\.[\w-]{16}",
    "tskey-": r"tskey-[\w-]{16}",
    "fsmi_": r"fsmi_[a-z]{4,8}_[\w-]{20}",
    # A token of three parts, of which the last may have been cut off.
    "eyj": r"eyJ[\w-]{10,1000}\.(?:eyJ|[\w-]{10,1000}\.)",
}
WEBHOOKS = (
    *(
        "hooks.slack.com/services/",
        "/api/webhooks/",
        "api.telegram.org/bot",
        ".webhook.office.com/",
    ),
)
PRIVATE_KEY = "-----begin"


def find_shape(line: CommandLine, at: int, *, pattern: str) -> Span | None:
    """Return the token that begins here, if it has that form."""
    if line.follows_word(at) or line.before(at)[-1:] == "-":
        return None
    found = compiled(rf"(?:{pattern})[\w.-]*").match(line.text, at)
    return None if found is None else found.span()


def find_webhook(line: CommandLine, at: int, *, prefix: str) -> Span | None:
    """Return the path of a webhook's URL, which is its password."""
    return line.span(at + len(prefix))


def find_private_key(line: CommandLine, at: int) -> Span | None:
    """Return the lines of a private key, up to its end or that of the text."""
    found = compiled(r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----").match(line.text, at)
    if found is None:
        return None
    end = line.text.find("-----END", found.end())
    return found.end(), len(line.text) if end < 0 else end
