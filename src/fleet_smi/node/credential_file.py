"""Credential file of an agent: one token per hub that it joined, readable by its user only."""

import os

import msgspec

from fleet_smi.client.private_file import read_private, write_private
from fleet_smi.errors import UsageError

_NAME = "credential.json"
_PROPOSED = "proposed to "


class CredentialFile:
    """Tokens by the hub's URL, so that one hub's token is never sent to another."""

    def __init__(self, folder: str) -> None:
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
        write_private(self.path, msgspec.json.encode(tokens))

    def _read(self) -> dict[str, str]:
        content = read_private(self.path)
        if content is None:
            return {}
        try:
            return msgspec.json.decode(content, type=dict[str, str])
        except (ValueError, RecursionError):
            raise UsageError(f"{self.path} is damaged: remove it and join again") from None
