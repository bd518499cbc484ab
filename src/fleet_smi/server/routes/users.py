"""`/api/v1/users`: list, add, change and remove the accounts of the page (admin)."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.hub.users import User, UserRole, UserStore
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError

_Password = Annotated[str, Meta(max_length=1024)]


class UserRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new account."""

    name: str
    password: _Password
    role: UserRole = "viewer"


class UserChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new role, a new password, or both; a new password ends the user's sessions."""

    role: UserRole | None = None
    password: _Password | None = None


class UserList(Struct, frozen=True, kw_only=True):
    """The accounts, by name, without their passwords."""

    users: tuple[User, ...]


async def list_users(context: RequestContext) -> Response:
    """Every account with its role."""
    found = await asyncio.to_thread(context.services.credentials.users.list_all)
    return json_response(UserList(users=tuple(found)))


async def add_user(context: RequestContext) -> Response:
    """Add an account, which can log in immediately."""
    request: UserRequest = context.body

    def add(store: UserStore) -> None:
        store.add(request.name, request.password, request.role)

    await asyncio.to_thread(context.services.credentials.change_users, add)
    return Response(status_code=204)


async def change_user(context: RequestContext) -> Response:
    """Change the role or the password of an account."""
    request: UserChange = context.body
    name = context.path_params["name"]
    if request.role == "viewer":
        _refuse_own(context, name, "take away your own admin role")
    await _require_existing(context, name)

    def change(store: UserStore) -> None:
        if request.password is not None:
            store.set_password(name, request.password)
        if request.role is not None:
            store.set_role(name, request.role)

    await asyncio.to_thread(context.services.credentials.change_users, change)
    return Response(status_code=204)


async def remove_user(context: RequestContext) -> Response:
    """Remove an account and end its sessions."""
    name = context.path_params["name"]
    _refuse_own(context, name, "remove your own account")
    await _require_existing(context, name)
    await asyncio.to_thread(
        context.services.credentials.change_users, lambda store: store.remove(name)
    )
    return Response(status_code=204)


def _refuse_own(context: RequestContext, name: str, action: str) -> None:
    """Keep an admin from locking everybody out."""
    identity = context.identity
    if identity is not None and identity.auth_method == "session" and identity.name == name:
        message = f"you cannot {action}: ask another admin"
        raise ApiError(HttpError(409, "own_account", message))


async def _require_existing(context: RequestContext, name: str) -> None:
    found = await asyncio.to_thread(context.services.credentials.users.list_all)
    if all(user.name != name for user in found):
        raise ApiError(HttpError(404, "unknown_user", f"there is no user {name}"))


_PATH = "/api/v1/users"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="The accounts of the page",
        required_action="administrate",
        handler=list_users,
        response=UserList,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Add an account",
        required_action="administrate",
        handler=add_user,
        body=UserRequest,
        status=204,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="PATCH",
        path=f"{_PATH}/{{name}}",
        summary="Change the role or the password of an account",
        required_action="administrate",
        handler=change_user,
        body=UserChange,
        status=204,
        extra_statuses=(404, 409, 503),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{name}}",
        summary="Remove an account and end its sessions",
        required_action="administrate",
        handler=remove_user,
        status=204,
        extra_statuses=(404, 409, 503),
    ),
)
