"""The `pull` source: polls agents that serve their latest report over HTTP."""

from collections.abc import Mapping, Sequence

from fleet_smi.config import Settings
from fleet_smi.errors import UsageError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source, with_polling_interval
from fleet_smi.hub.http_polling import HttpPoller, PollRequest
from fleet_smi.wire.report import decode_report

DEFAULT_PORT = 7071
_REFUSED = "rejected the token: give the agent's token in hub.pull_tokens_file or hub.pull_token"


def create_sources(settings: Settings) -> list[Source]:
    """Create the source that polls the agents named in `hub.pull`."""
    hub = settings.hub
    tokens = hub.read_pull_tokens()
    unknown = sorted(set(tokens) - set(hub.pull))
    if unknown:
        raise UsageError(f"{hub.pull_tokens_file}: {unknown[0]} is not in hub.pull")
    return [
        PullSource(
            hub.pull,
            token=hub.read_pull_token(),
            tokens=tokens,
            interval_seconds=hub.pull_interval,
        )
    ]


class PullSource:
    """Polls many agents concurrently, each with its own timeout.

    `tokens` are those of single targets: with one `token` for all, each agent learns the others'.
    """

    name = "pull"

    def __init__(
        self,
        targets: Sequence[str],
        *,
        token: str | None = None,
        tokens: Mapping[str, str] | None = None,
        interval_seconds: float = 2.0,
        timeout_seconds: float = 5.0,
    ) -> None:
        self.targets = tuple(targets)
        self._interval_seconds = interval_seconds
        request = PollRequest(
            path="/api/v1/report",
            default_port=DEFAULT_PORT,
            headers={"Accept": "application/msgpack"},
            refusal_messages={401: _REFUSED, 403: _REFUSED},
        )
        own = dict.fromkeys(targets, token) | {**(tokens or {})}
        headers = {target: _authorization(secret) for target, secret in own.items() if secret}
        self._poller = HttpPoller(
            self.name, targets, request, self._parse, timeout_seconds, headers
        )

    async def poll(self) -> Sequence[Delivery]:
        """Poll every agent once."""
        return await self._poller.poll_once()

    async def run(self, deliver: DeliverCallback) -> None:
        """Poll every agent on its own schedule until cancelled."""
        await self._poller.poll_until_cancelled(deliver, self._interval_seconds)

    def _parse(self, target: str, body: bytes) -> Delivery:
        report = decode_report(body)
        snapshot = report.snapshots[-1]  # the latest is all that an agent serves this way
        return Delivery(
            source=self.name,
            target=target,
            result=with_polling_interval(snapshot, self._interval_seconds),
            age_seconds=report.age_seconds(snapshot),
        )


def _authorization(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
