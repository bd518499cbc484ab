"""Agents vouch for the users of their machines: the hub's side.

A request with the header of a forwarded user must have the credential of a node. It then counts
as that user's, with the rights of a viewer, and only for what an agent forwards.
"""

from fleet_smi.hub.credentials import Identity
from fleet_smi.server.http_error import Headers, HttpError
from fleet_smi.wire.vouching import MAX_USER_LENGTH, USER_HEADER, decode_user, may_forward

_HEADER = USER_HEADER.lower().encode()
_NOT_AN_AGENT = HttpError(403, "not_an_agent", f"only the agent of a node may send {USER_HEADER}")
_NOT_FORWARDED = HttpError(403, "not_forwarded", "an agent does not forward this request")
_BAD_USER = HttpError(
    400,
    "bad_user",
    f"the name of this user is not one of 1 to {MAX_USER_LENGTH} printable characters: "
    "run `fleet-smi login` instead",
)


def vouched_identity(
    identity: Identity, headers: Headers, method: str, path: str
) -> Identity | HttpError:
    """The user that an agent names, or the identity itself where it names none."""
    names = [value for name, value in headers if name == _HEADER]
    if not names:
        return identity
    if identity.role != "node" or identity.node_id is None:
        return _NOT_AN_AGENT
    if not may_forward(method, path):
        return _NOT_FORWARDED
    user = decode_user(names[0].decode("latin-1")) if len(names) == 1 else None
    if user is None:
        return _BAD_USER
    return Identity(
        role="viewer",
        name=user,
        auth_method="agent",
        node_id=identity.node_id,
        token_id=identity.token_id,
        person=user,
    )
