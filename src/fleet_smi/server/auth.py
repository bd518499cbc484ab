"""Authentication and authorization: who sends a request, and what they may do."""

import hmac
from collections.abc import Sequence
from typing import Literal

from fleet_smi.config.ip_addresses import IpNetworks, is_loopback
from fleet_smi.hub.credentials import CredentialCache, Identity, Role
from fleet_smi.hub.sessions import SESSION_LIFETIME_SECONDS
from fleet_smi.hub.users import UserRole
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.server.http_error import Headers, HttpError
from fleet_smi.server.rate_limit import AuthRateLimiter

Action = Literal["view", "report", "act", "administrate"]
SESSION_COOKIE = "fleet_smi_session"
ANONYMOUS = Identity(role="viewer", name="anybody", auth_method="open")
_REQUIRED_ROLE = {
    "view": "a viewer",
    "report": "a node",
    "act": "a person",
    "administrate": "an admin",
}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_FORWARDED_HEADERS = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"x-forwarded-host")
_BAD_TOKEN = HttpError(401, "bad_token", "unknown token: it is expired, revoked or mistyped")
_UNAUTHENTICATED = HttpError(
    401, "unauthenticated", "authentication required: send a token, or log in"
)
NO_VIEWERS = HttpError(
    401,
    "no_viewers",
    "nobody has access to this hub yet: run `fleet-smi hub token add --role viewer` or "
    "`fleet-smi hub user add NAME` as root or as the hub's user on its machine",
)
_NO_PERSON = HttpError(
    403,
    "no_person",
    "the hub does not know who you are: run `fleet-smi login`, sign in on the page, or run this on "
    "a node with an agent",
)
_BAD_LOGIN = HttpError(401, "bad_login", "wrong name or password")
_BAD_PASSWORD = HttpError(403, "bad_password", "wrong password")
_CROSS_SITE = HttpError(403, "cross_site", "cross-origin requests are not allowed")
_NOT_JSON = HttpError(415, "not_json", "send this as application/json")


def bind_warning(
    host: str, *, has_viewers: bool, insecure_open: bool, tls: bool, proxied: bool = False
) -> str | None:
    """What the admin should know about a hub that listens there, `None` if there is nothing."""
    if is_loopback(host) or insecure_open:
        return None
    if not has_viewers and not proxied:
        return NO_VIEWERS.message
    if tls:
        return None
    return "tokens and passwords travel unencrypted: use --tls self-signed, or a proxy with TLS"


class AccessControl:
    """The access rules of one hub: from headers and an address to an identity and its rights."""

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
        base_path: str = "",
    ) -> None:
        self._credentials = credentials
        self._rate_limiter = rate_limiter
        self._loopback_only = loopback_only
        self._insecure_open = insecure_open
        self._tls = tls
        self._proxies = IpNetworks(trusted_proxies)
        self._user_header = (user_header or "").lower().encode()
        self._admins = frozenset(admins)
        # Not sent to other services below the same host name.
        self._cookie_path = f"{base_path}/"

    def authenticate(self, headers: Headers, peer: str, method: str) -> Identity | HttpError:
        """Identify the client that sent a request, or return the error to answer with.

        A bearer token is enough for a program. What a browser sends by itself (a session
        cookie, the user header of a proxy) counts for changes only from the hub's own pages.
        """
        token = bearer_token(headers)
        if token is not None:
            # A wrong token is an error even where none is needed: falling back to anonymous
            # access would hide the mistake, and leave guesses uncounted.
            return self._credentials.identify_token(token) or self.record_failure(
                headers, peer, _BAD_TOKEN
            )
        identity = self._session_identity(headers) or self._proxy_identity(headers, peer)
        if method not in _SAFE_METHODS:
            refusal = check_same_origin(headers, has_ambient_credentials=identity is not None)
            if refusal is not None:
                return refusal
        if identity is None and self._is_open(headers, peer):
            return ANONYMOUS
        return identity or self._unauthenticated

    def authorize(
        self, identity: Identity, action: Action, node_id: str | None = None
    ) -> HttpError | None:
        """Return the error if this identity may not do that, else `None`.

        `report` without a `node_id` asks whether it may report for any node at all.
        """
        if self._is_allowed(identity, action, node_id):
            return None
        if action == "act" and identity.role != "node":
            return _NO_PERSON
        if identity.auth_method == "open":
            return _UNAUTHENTICATED
        if action == "report" and identity.role == "node":
            return HttpError(403, "not_that_node", f"{identity.name} may not report as that node")
        message = f"only {_REQUIRED_ROLE[action]} may do this; your role here is {identity.role}"
        return HttpError(403, "forbidden", message)

    async def login(
        self, headers: Headers, peer: str, name: str, password: str
    ) -> HttpError | tuple[bytes, bytes]:
        """Check a password; return the header that sets the session cookie, or the error."""
        # Against login CSRF: a foreign page must not log a browser in to an account of its own.
        refusal = check_same_origin(headers, has_ambient_credentials=True)
        # Counted before the password is checked, and refunded if it is right: otherwise many
        # concurrent guesses would all pass the limit before the first one is counted.
        refusal = refusal or self._rate_limiter.record_failure(self.client_address(headers, peer))
        if refusal is not None:
            return refusal
        session = await self._credentials.login(name, password)
        if session is None:
            return _BAD_LOGIN
        self._rate_limiter.refund(self.client_address(headers, peer))
        return self._cookie_header(session, SESSION_LIFETIME_SECONDS)

    async def check_password(
        self, headers: Headers, peer: str, name: str, password: str
    ) -> HttpError | UserRole:
        """Return the role of a user whose password is right, or the error; limited as `login`.

        No browser is logged in by it, so the page that sends it does not matter.
        """
        address = self.client_address(headers, peer)
        refusal = self._rate_limiter.record_failure(address)
        if refusal is not None:
            return refusal
        role = await self._credentials.check_password(name, password)
        if role is None:
            return _BAD_LOGIN
        self._rate_limiter.refund(address)
        return role

    def check_shared_password(
        self, headers: Headers, peer: str, password: str, expected: str
    ) -> HttpError | None:
        """Return the error for a wrong shared password, else `None`; rate limited as login is."""
        refusal = self._rate_limiter.record_failure(self.client_address(headers, peer))
        if refusal is not None:
            return refusal
        if not hmac.compare_digest(password.encode(), expected.encode()):
            return _BAD_PASSWORD
        self._rate_limiter.refund(self.client_address(headers, peer))
        return None

    async def logout(self, headers: Headers) -> tuple[bytes, bytes]:
        """Revoke the session; return the header that deletes its cookie."""
        cookie = _session_cookie(headers)
        if cookie is not None:
            await self._credentials.logout(cookie)
        return self._cookie_header("", 0)

    def record_failure(self, headers: Headers, peer: str, error: HttpError) -> HttpError:
        """Count a failed login of this client; return `error`, or 429 if there were too many."""
        return self._rate_limiter.record_failure(self.client_address(headers, peer)) or error

    def client_address(self, headers: Headers, peer: str) -> str:
        """The address of the client: the peer, or the one a trusted proxy forwards for."""
        if peer in self._proxies:
            # From the right: each proxy appends, and what is left of the first address that
            # is no proxy of ours was written by the client and may be forged.
            for hop in reversed(_header(headers, b"x-forwarded-for").split(",")):
                if hop.strip() and hop not in self._proxies:
                    return hop.strip()
        return peer

    def is_trusted_proxy(self, peer: str) -> bool:
        """Whether the other end of the connection is a proxy that the settings trust."""
        return peer in self._proxies

    def forwarded_origin(self, headers: Headers, peer: str) -> str | None:
        """The scheme and host by which a client reached a trusted proxy; `None` if not said."""
        # The first of several proxies is the one that the client reached.
        scheme = _header(headers, b"x-forwarded-proto").partition(",")[0].strip().lower()
        if scheme not in ("http", "https") or not self.is_trusted_proxy(peer):
            return None
        forwarded = _header(headers, b"x-forwarded-host").partition(",")[0].strip()
        return f"{scheme}://{forwarded or _header(headers, b'host')}"

    @property
    def _unauthenticated(self) -> HttpError:
        # A hub starts before anybody has access; logging in could not help then.
        is_new = not self._credentials.has_viewer_credentials and not self._user_header
        return NO_VIEWERS if is_new else _UNAUTHENTICATED

    def _is_allowed(self, identity: Identity, action: Action, node_id: str | None) -> bool:
        if action == "administrate":
            return identity.role == "admin"
        if action == "view":
            return identity.role != "node"
        if action == "act":
            return identity.role == "admin" or identity.person is not None
        if identity.auth_method == "open":
            # Open access must not let anyone report for a node that has its own credential.
            return self._insecure_open and not self._credentials.has_node_credential(node_id or "")
        return identity.role == "node" and node_id in (None, identity.node_id)

    def _is_open(self, headers: Headers, peer: str) -> bool:
        if self._insecure_open:
            return True
        # A reverse proxy on this machine makes remote clients look like loopback.
        forwarded = peer in self._proxies or any(name in _FORWARDED_HEADERS for name, _ in headers)
        return self._loopback_only and not forwarded

    def _session_identity(self, headers: Headers) -> Identity | None:
        cookie = _session_cookie(headers)
        return None if cookie is None else self._credentials.identify_session(cookie)

    def _proxy_identity(self, headers: Headers, peer: str) -> Identity | None:
        name = sanitize_text(_header(headers, self._user_header), 64)
        if not name or peer not in self._proxies:
            return None
        role: Role = "admin" if name in self._admins else "viewer"
        return Identity(role=role, name=name, auth_method="proxy", person=name)

    def _cookie_header(self, value: str, seconds: float) -> tuple[bytes, bytes]:
        secure = "; Secure" if self._tls else ""
        cookie = (
            f"{SESSION_COOKIE}={value}; Path={self._cookie_path}; Max-Age={seconds:.0f}; "
            "HttpOnly; SameSite=Strict"
        )
        return b"set-cookie", (cookie + secure).encode()


def may_edit(identity: Identity, owner: str) -> bool:
    """Whether the sender may change what this person has queued or booked: their own, or an admin.

    For endpoints with the action `act`.
    """
    return identity.role == "admin" or (identity.person is not None and identity.person == owner)


def acting_name(identity: Identity) -> str:
    """The name under which the sender acts; an admin's token without a person has its note."""
    return identity.person or identity.name


def check_same_origin(headers: Headers, *, has_ambient_credentials: bool) -> HttpError | None:
    """Return the error for a cross-site request (CSRF), else `None`.

    Ambient credentials are those that a browser attaches by itself, whichever page sends the
    request: then the page must be the hub's own, and the body one that no HTML form can send.
    """
    # Browsers set Sec-Fetch-Site themselves, and no page can change it; older ones have only
    # Origin, and a request with neither is not from a browser.
    site, origin = _header(headers, b"sec-fetch-site"), _header(headers, b"origin")
    if site:
        is_own_page = site == "same-origin"
    elif origin:
        # Without the scheme, which behind a TLS proxy is not the one of this connection.
        is_own_page = origin.partition("://")[2] == _header(headers, b"host")
    else:
        is_own_page = not has_ambient_credentials
    if not is_own_page:
        return _CROSS_SITE
    kind = _header(headers, b"content-type").partition(";")[0].strip().lower()
    return _NOT_JSON if has_ambient_credentials and kind != "application/json" else None


def bearer_token(headers: Headers) -> str | None:
    """The bearer token, empty where an authorization is malformed; `None` without one.

    Another scheme, like Basic, is not for the hub: a proxy that asks for a login passes it on.
    """
    malformed = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.strip().partition(b" ")
            if token and scheme.lower() == b"bearer":
                return token.strip().decode("latin-1")
            malformed = malformed if token else ""
    return malformed


def _session_cookie(headers: Headers) -> str | None:
    """The value of the session cookie, `None` if it was not sent."""
    for part in _header(headers, b"cookie").split(";"):
        name, _, value = part.strip().partition("=")
        if name == SESSION_COOKIE:
            return value
    return None


def _header(headers: Headers, wanted: bytes) -> str:
    """The value of a header; several of one name are joined, empty if there is none."""
    values = [value for name, value in headers if name == wanted]
    return b", ".join(values).decode("latin-1") if values else ""
