"""OpenTelemetry (OTLP over HTTP) as a metric exporter: its encoding, headers and credentials."""

import gzip
from collections.abc import Mapping

from fleet_smi.config.settings import HubSettings
from fleet_smi.hub.metric_export.exporter import Export
from fleet_smi.hub.metric_export.receiver import HttpProtocol, Receiver, basic_credentials
from fleet_smi.wire.otlp import OtlpEncoder, rejected_points

_COMPRESSION_LEVEL = 1  # attributes repeat: a higher level takes twice as long for little
# The specification: these are retried, and no other answer is.
_TEMPORARY = (429, 502, 503, 504)


def create_export(settings: HubSettings, url: str) -> Export:
    """Return what the exporter needs; raise `UsageError` where a credential is missing."""

    def credentials() -> Mapping[str, str]:
        token = settings.read_otlp_token()
        if token is None:
            return {}
        if settings.otlp_header is not None:
            return {settings.otlp_header: token}
        if settings.otlp_user is not None:
            return {"Authorization": basic_credentials(settings.otlp_user, token)}
        return {"Authorization": f"Bearer {token}"}

    credentials()  # a file that cannot be read is an error at the start
    protocol = HttpProtocol(
        headers={"Content-Encoding": "gzip", "Content-Type": "application/x-protobuf"},
        is_temporary=lambda status: status in _TEMPORARY,
        rejected_samples=rejected_points,
    )
    encoder, receiver = OtlpEncoder(settings.otlp_attributes), Receiver(url, protocol, credentials)
    return Export(encoder, _compress, receiver, settings.otlp_interval, settings.otlp_buffer)


def _compress(data: bytes) -> bytes:
    return gzip.compress(data, _COMPRESSION_LEVEL, mtime=0)
