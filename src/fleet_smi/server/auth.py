"""Who is asking, and what they may do. Decided here and nowhere else."""

import hmac
from collections.abc import Sequence
from typing import Literal

from fleet_smi.config.ip_addresses import IpNetworks, is_loopback
from fleet_smi.errors import UsageError
from fleet_smi.hub.credentials import CredentialCache, Identity, Role
from fleet_smi.hub.sessions import SESSION_LIFETIME_SECONDS
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.server.http_error import Headers, HttpError
from fleet_smi.server.rate_limit import AuthRateLimiter

Action = Literal["view", "report", "administrate"]
SESSION_COOKIE = "fleet_smi_session"
ANONYMOUS = Identity(role="viewer", name="anybody", auth_method="open")
_NEEDED = {"view": "a viewer", "report": "a node", "administrate": "an admin"}
_SAFE = ("GET", "HEAD", "OPTIONS")
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"x-forwarded-host")
_BAD_TOKEN = HttpError(
    401, "bad_token", "this token is not known here: expired, revoked or mistyped"
)
_NOBODY = HttpError(401, "unauthenticated", "say who you are: with a token, or by logging in")
_BAD_LOGIN = HttpError(401, "bad_login", "that is not the name and password of anybody here")
_BAD_PASSWORD = HttpError(403, "bad_password", "that is not the password")
_CROSS_SITE = HttpError(403, "cross_site", "a page of another origin may not ask for this")
_NOT_JSON = HttpError(415, "not_json", "send this as application/json")


def check_bind(
    host: str, *, has_viewers: bool, insecure_open: bool, tls: bool, proxied: bool = False
) -> str | None:
    """Refuse to listen beyond this machine for anybody; a warning where tokens go in the clear."""
    if is_loopback(host) or insecure_open:
        return None
    if not has_viewers and not proxied:
        raise UsageError(
            f"listening on {host or 'all addresses'} needs a token or user who may look: run "
            "`fleet-smi hub token add --role viewer` first, or say --insecure-open"
        )
    if tls:
        return None
    return "tokens and passwords travel unencrypted: use --tls self-signed, or a proxy with TLS"


class AccessControl:
    """The rules of one hub: from headers and an address to somebody, and to what they may do."""

    def __init__(
        self,
        credentials: CredentialCache,
        rate_limiter: AuthRateLimiter,
        *,
        loopback_only: bool,
        insecure_open: bool = False,
        tls: bool = False,
        trusted_proxies: Sequence[str] = (),
        user_header: str | None = None,
        admins: Sequence[str] = (),
    ) -> None:
        self._credentials = credentials
        self._failures = rate_limiter
        self._loopback_only = loopback_only
        self._insecure_open = insecure_open
        self._tls = tls
        self._proxies = IpNetworks(trusted_proxies)
        self._user_header = (user_header or "").lower().encode()
        self._admins = frozenset(admins)

    def authenticate(self, headers: Headers, peer: str, method: str) -> Identity | HttpError:
        """Who asks. A token is all that programs need; browsers must also be on our own page."""
        token = bearer_token(headers)
        if token is not None:
            return self._credentials.identify_token(token) or self.record_failure(
                headers, peer, _BAD_TOKEN
            )
        who = self._session(headers) or self._proxied(headers, peer)
        if method not in _SAFE:
            refusal = check_same_origin(headers, has_ambient_credentials=who is not None)
            if refusal is not None:
                return refusal
        if who is None and self._is_open(headers, peer):
            return ANONYMOUS
        return who or _NOBODY

    def authorize(
        self, identity: Identity, action: Action, node_id: str | None = None
    ) -> HttpError | None:
        """Why somebody may not do this; `None` when they may.

        To report, without a node's id, is to report as whichever node they may be.
        """
        if self._may(identity, action, node_id):
            return None
        if identity.auth_method == "open":
            return _NOBODY
        if action == "report" and identity.role == "node":
            return HttpError(403, "not_that_node", f"{identity.name} may not report as that node")
        words = f"only {_NEEDED[action]} may do this; your role here is {identity.role}"
        return HttpError(403, "forbidden", words)

    async def login(
        self, headers: Headers, peer: str, name: str, password: str
    ) -> HttpError | tuple[bytes, bytes]:
        """The header that sets the session's cookie, for the right password."""
        refusal = check_same_origin(headers, has_ambient_credentials=True)
        # Counted before it is looked at: many at once get no more tries than one by one.
        refusal = refusal or self._failures.record_failure(self.client_address(headers, peer))
        if refusal is not None:
            return refusal
        session = await self._credentials.login(name, password)
        if session is None:
            return _BAD_LOGIN
        self._failures.refund(self.client_address(headers, peer))
        return self._cookie(session, SESSION_LIFETIME_SECONDS)

    def check_shared_password(
        self, headers: Headers, peer: str, password: str, expected: str
    ) -> HttpError | None:
        """Why a password that many share is not the right one; guesses are counted as at login."""
        refusal = self._failures.record_failure(self.client_address(headers, peer))
        if refusal is not None:
            return refusal
        if not hmac.compare_digest(password.encode(), expected.encode()):
            return _BAD_PASSWORD
        self._failures.refund(self.client_address(headers, peer))
        return None

    async def logout(self, headers: Headers) -> tuple[bytes, bytes]:
        """End the session for good; the header that takes its cookie away."""
        cookie = _session_cookie(headers)
        if cookie is not None:
            await self._credentials.logout(cookie)
        return self._cookie("", 0)

    def record_failure(self, headers: Headers, peer: str, error: HttpError) -> HttpError:
        """Count a failure against where it comes from: `why`, or to come back later."""
        return self._failures.record_failure(self.client_address(headers, peer)) or error

    def client_address(self, headers: Headers, peer: str) -> str:
        """Where a request comes from: the peer, or whom a trusted proxy has it from."""
        if peer in self._proxies:
            for hop in reversed(_value(headers, b"x-forwarded-for").split(",")):
                if hop.strip() and hop not in self._proxies:
                    return hop.strip()
        return peer

    def _may(self, who: Identity, action: Action, node_id: str | None) -> bool:
        if action == "administrate":
            return who.role == "admin"
        if action == "view":
            return who.role != "node"
        if who.auth_method == "open":
            # Open is no way to speak for a node that has a credential of its own.
            return self._insecure_open and not self._credentials.has_node_credential(node_id or "")
        return who.role == "node" and node_id in (None, who.node_id)

    def _is_open(self, headers: Headers, peer: str) -> bool:
        if self._insecure_open:
            return True
        # Whoever comes through a proxy on this machine does not sit at this machine.
        forwarded = peer in self._proxies or any(name in _FORWARDED for name, _ in headers)
        return self._loopback_only and not forwarded

    def _session(self, headers: Headers) -> Identity | None:
        cookie = _session_cookie(headers)
        return None if cookie is None else self._credentials.identify_session(cookie)

    def _proxied(self, headers: Headers, peer: str) -> Identity | None:
        name = sanitize_text(_value(headers, self._user_header), 64)
        if not name or peer not in self._proxies:
            return None
        role: Role = "admin" if name in self._admins else "viewer"
        return Identity(role=role, name=name, auth_method="proxy")

    def _cookie(self, value: str, seconds: float) -> tuple[bytes, bytes]:
        secure = "; Secure" if self._tls else ""
        cookie = (
            f"{SESSION_COOKIE}={value}; Path=/; Max-Age={seconds:.0f}; HttpOnly; SameSite=Strict"
        )
        return b"set-cookie", (cookie + secure).encode()


def check_same_origin(headers: Headers, *, has_ambient_credentials: bool) -> HttpError | None:
    """Why a change may not be asked for from there; `None` when it may.

    `ambient` is authority that a browser sends along unasked, whichever page it shows: then
    the page must be known to be ours, and the body of a kind that no form can send.
    """
    site, origin = _value(headers, b"sec-fetch-site"), _value(headers, b"origin")
    if site:
        ours = site == "same-origin"
    elif origin:
        ours = origin.partition("://")[2] == _value(headers, b"host")
    else:
        ours = not has_ambient_credentials
    if not ours:
        return _CROSS_SITE
    kind = _value(headers, b"content-type").partition(";")[0].strip().lower()
    return _NOT_JSON if has_ambient_credentials and kind != "application/json" else None


def bearer_token(headers: Headers) -> str | None:
    """The token that came along; empty for another kind of authorization, `None` for none."""
    for name, value in headers:
        if name == b"authorization":
            return value[7:].strip().decode("latin-1") if value[:7].lower() == b"bearer " else ""
    return None


def _session_cookie(headers: Headers) -> str | None:
    """The value of our cookie; `None` when it did not come along."""
    for part in _value(headers, b"cookie").split(";"):
        name, _, value = part.strip().partition("=")
        if name == SESSION_COOKIE:
            return value
    return None


def _value(headers: Headers, wanted: bytes) -> str:
    """The header's value; all of them, where it was sent in several pieces."""
    values = [value for name, value in headers if name == wanted]
    return b", ".join(values).decode("latin-1") if values else ""
