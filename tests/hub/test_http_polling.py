"""HTTP polling: the URLs of targets."""

import pytest

from fleet_smi.compat.node_info.source import NodeInfoSource
from fleet_smi.compat.nvgpu.source import NvgpuSource
from fleet_smi.errors import UsageError
from fleet_smi.hub.http_polling import PollRequest, target_url
from fleet_smi.hub.sources.pull import PullSource

QUESTION = PollRequest(path="/api/v1/report", default_port=7071)
WRONG = ("", "gpu01:99999", "ftp://gpu01", "[::1", "http://me@gpu01")


@pytest.mark.parametrize(
    "target, url",
    [
        ("gpu01", "http://gpu01:7071/api/v1/report"),
        ("gpu01:80", "http://gpu01:80/api/v1/report"),
        ("https://gpu01", "https://gpu01:7071/api/v1/report"),
        ("[::1]:9", "http://[::1]:9/api/v1/report"),
    ],
)
def test_an_address_is_a_host_a_port_or_a_url(target: str, url: str) -> None:
    assert target_url(target, QUESTION) == url


@pytest.mark.parametrize("target", WRONG)
def test_an_invalid_address_is_refused_at_start(target: str) -> None:
    with pytest.raises(UsageError, match="not the address of an agent"):
        PullSource([target])
    with pytest.raises(UsageError, match="not the address of an agent"):
        NvgpuSource([target])
    with pytest.raises(UsageError, match="not the address of an agent"):
        NodeInfoSource([target], password="x")
