"""Tokens and users of a hub for tests, and a clock that tests advance."""

from fleet_smi.hub.credentials import CredentialCache

DAY = 86400.0
PASSWORD = "correct horse battery"


class ManualClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def join_node(credentials: CredentialCache, node_id: str = "id-1") -> str:
    """Join a node and use its token once; return the token."""
    key = credentials.tokens.add("join").secret
    token = credentials.redeem_join_token(key, node_id, "gpu1").secret
    assert credentials.identify_token(token) is not None
    return token
