"""The logins of a user: one personal token per hub, readable by this user only."""

import contextlib
import os

import msgspec
from msgspec import Struct

from fleet_smi.client.private_file import read_private, write_private
from fleet_smi.errors import StateError, UsageError


class Login(Struct, frozen=True, kw_only=True):
    """A personal token, whose it is, and the certificate that its hub must have."""

    token: str
    person: str
    fingerprint: str | None = None


class LoginFile:
    """Logins by the hub's URL, so that the token of one hub is never sent to another."""

    def __init__(self, path: str) -> None:
        self.path = path

    def get(self, url: str) -> Login | None:
        """The login at that hub; raise `UsageError` if the file cannot be used."""
        return self._read().get(_key(url))

    @property
    def urls(self) -> list[str]:
        """The hubs with a login."""
        return list(self._read())

    def store(self, url: str, login: Login) -> None:
        """Save the login at that hub; raise `StateError` if it cannot be written."""
        self._write({**self._read(), _key(url): login})

    def remove(self, url: str) -> None:
        """Forget the login at that hub; raise `StateError` if it cannot be written."""
        self._write({key: login for key, login in self._read().items() if key != _key(url)})

    def _write(self, logins: dict[str, Login]) -> None:
        if not self._is_own:
            raise StateError(f"{self.path} is in a folder of another user: check HOME")
        try:
            write_private(self.path, msgspec.json.encode(logins))
        except OSError as error:
            raise StateError(f"{self.path} cannot be written: {error.strerror}") from None

    @property
    def _is_own(self) -> bool:
        """Whether the file and its folder are this user's, as far as they exist."""
        for path in (self.path, os.path.dirname(self.path)):
            with contextlib.suppress(OSError):
                if os.lstat(path).st_uid != os.geteuid():
                    return False
        return True

    def _read(self) -> dict[str, Login]:
        # In the home folder of another user, as with `sudo -u`, there is no login of this one; nor
        # is what another user has put there.
        if not os.access(os.path.dirname(self.path), os.X_OK) or not self._is_own:
            return {}
        content = read_private(self.path)
        if content is None:
            return {}
        try:
            return msgspec.json.decode(content, type=dict[str, Login])
        except (ValueError, RecursionError):
            raise UsageError(f"{self.path} is damaged: remove it and log in again") from None


def _key(url: str) -> str:
    return url.rstrip("/")
