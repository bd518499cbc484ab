"""Prometheus remote write as a metric exporter: its encoding, headers and credentials."""

from collections.abc import Mapping

from cramjam import snappy

from fleet_smi.config.settings import HubSettings
from fleet_smi.hub.metric_export.exporter import Export
from fleet_smi.hub.metric_export.receiver import HttpProtocol, Receiver, basic_credentials
from fleet_smi.wire.remote_write import SeriesEncoder

PROTOCOL = HttpProtocol(
    headers={
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    },
    is_temporary=lambda status: status >= 500 or status in (408, 429),
)


def create_export(settings: HubSettings, url: str) -> Export:
    """Return what the exporter needs; raise `UsageError` where a credential is missing."""

    def credentials() -> Mapping[str, str]:
        token = settings.read_remote_write_token()
        if token is not None:
            return {"Authorization": f"Bearer {token}"}
        if settings.remote_write_user is None:
            return {}
        password = settings.read_remote_write_password() or ""
        return {"Authorization": basic_credentials(settings.remote_write_user, password)}

    credentials()  # a file that cannot be read is an error at the start
    return Export(
        SeriesEncoder(settings.remote_write_labels),
        _compress,
        Receiver(url, PROTOCOL, credentials),
        settings.remote_write_interval,
        settings.remote_write_buffer,
    )


def _compress(data: bytes) -> bytes:
    return bytes(snappy.compress_raw(data))
