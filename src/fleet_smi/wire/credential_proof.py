"""Credentials of nodes on the wire: a node's proposal, and a hub's proof that it knows one.

A node finds its hub again under a new URL by this, and sends the credential only afterwards. The
host name is part of the challenge: a server in between cannot pass the question on to the hub.
"""

PROPOSAL_HEADER = "fleet-smi-credential"
"""Of a join: the secret that the node proposes, the same at every attempt."""
PROPOSAL_PATTERN = "fsmi_node_[A-Za-z0-9_-]{43,128}"


def credential_proof(digest: bytes, challenge: bytes) -> bytes:
    """The proof for a challenge; `digest` is the SHA-256 of the credential, as the hub has it."""
    # Imported here: an agent that knows its hub never loads OpenSSL for this.
    from hmac import digest as hmac_digest

    return hmac_digest(digest, b"fleet-smi hub\0" + challenge, "sha256")


def build_challenge(nonce: str, host: str) -> bytes:
    """What is proved: a random text of the node, and the host name that it connects to."""
    return f"{nonce}\0{host.lower()}".encode("utf-8", "replace")


def credential_digest(secret: str) -> bytes:
    """The hash of a credential that is stored instead of it."""
    from hashlib import sha256

    return sha256(secret.encode(errors="replace")).digest()
