"""`POST /api/v1/identity`: prove to a node that this is the hub which it has joined."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.server.endpoint import Endpoint, RequestContext, json_response
from fleet_smi.server.middleware import host_without_port
from fleet_smi.wire.credential_proof import build_challenge
from fleet_smi.wire.limits import ID_PATTERN


class IdentityRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The node that asks, and a random text that no hub has seen before."""

    node_id: Annotated[str, Meta(pattern=ID_PATTERN)]
    nonce: Annotated[str, Meta(min_length=32, max_length=128)]


class IdentityProof(Struct, frozen=True, kw_only=True):
    """An HMAC that only a hub with the node's credential can compute, in hexadecimal digits."""

    proof: str


async def prove_identity(context: RequestContext) -> Response:
    """Answer the challenge of a node; needs no token, as the node does not trust this hub yet."""
    request: IdentityRequest = context.body
    challenge = build_challenge(request.nonce, host_without_port(context.header("host")))
    proof = context.services.credentials.prove_node_credential(request.node_id, challenge)
    return json_response(IdentityProof(proof=proof.hex()))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/api/v1/identity",
        summary="Prove to a node that this hub knows its credential",
        required_action=None,
        handler=prove_identity,
        body=IdentityRequest,
        response=IdentityProof,
    ),
)
