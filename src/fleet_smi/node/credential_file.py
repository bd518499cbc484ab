"""Credential file of an agent: one token per hub that it joined, readable by its user only."""

import contextlib
import os

import msgspec

from fleet_smi.errors import UsageError

_NAME = "credential.json"
_MAX_BYTES = 1 << 20
_PROPOSED = "proposed to "


class CredentialFile:
    """Tokens by the hub's URL, so that one hub's token is never sent to another."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.path = f"{folder}/{_NAME}"

    def get(self, hub: str) -> str | None:
        """The token for that hub, if it was joined; raise `UsageError` if the file is unsafe."""
        return self._read().get(hub)

    def get_others(self, hub: str) -> set[str]:
        """The tokens for other hubs: one of them may be this hub under its former URL."""
        return {
            token
            for name, token in self._read().items()
            if name != hub and not name.startswith(_PROPOSED)
        }

    def store(self, hub: str, token: str) -> None:
        """Save the token for that hub; raise `OSError` if it cannot be written."""
        tokens = {**self._read(), hub: token}
        tokens.pop(_PROPOSED + hub, None)
        self._write(tokens)

    def propose(self, hub: str) -> str:
        """The token to propose to that hub, saved before it is sent; raise `OSError`.

        It stays the same until the hub has accepted one: where a response was lost, the hub
        recognises the node by it.
        """
        tokens = self._read()
        name = _PROPOSED + hub
        if name not in tokens:
            tokens[name] = f"fsmi_node_{os.urandom(32).hex()}"
            self._write(tokens)
        return tokens[name]

    def _write(self, tokens: dict[str, str]) -> None:
        os.makedirs(self._folder, 0o700, exist_ok=True)  # noqa: PTH103
        # Synced and renamed: a crash leaves the old tokens or the new ones, never an empty file.
        # O_EXCL and O_NOFOLLOW: never through a link that another user has put there.
        temporary = f"{self.path}.{os.urandom(4).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(msgspec.json.encode(tokens))
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, self.path)  # noqa: PTH104
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            raise

    def _read(self) -> dict[str, str]:
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise UsageError(f"{self.path} can be read by others: chmod 600 it")
                return msgspec.json.decode(file.read(_MAX_BYTES), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise UsageError(f"{self.path} is damaged: remove it and join again") from None
