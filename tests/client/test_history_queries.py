"""The history from Python: from a real hub, as structs and as data frames."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import polars
import pytest

from fleet_smi import api
from fleet_smi.client.hub import HubClient
from fleet_smi.errors import UsageError
from tests.builders import HOUR
from tests.server.routes.sample_history import report_history
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as hub:
        report_history(hub)
        yield hub.url


@pytest.fixture
def lab(url: str) -> Iterator[api.Fleet]:
    with closing(api.Fleet(url)) as fleet:
        yield fleet


def test_a_moment_is_text_seconds_or_a_datetime(lab: api.Fleet) -> None:
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    for at in ("-1h", an_hour_ago, an_hour_ago.timestamp()):
        assert [one.user for one in lab.people(at=at)] == ["bob"]
    assert [gpu.verdict.state for gpu in lab.gpus(at="-1h")][:2] == ["busy", "free"]
    assert lab.view().summary.busy == 0


def test_tables_hold_structs_and_convert_to_frames(lab: api.Fleet) -> None:
    periods = lab.history(since="3h", user="bob")
    assert [row.periods[0].state for row in periods.rows] == ["busy"]
    assert periods.frame("polars")["users"].to_list() == ["bob"]
    usage = lab.usage(since="3h", by="node", daily=True)
    assert usage.rows[0].sums.gpu_seconds == pytest.approx(HOUR, abs=1.0)
    assert usage.frame("polars").filter(polars.col("name") == "gpu01").height == 1
    jobs = lab.jobs(since="3h", user="bob")
    assert jobs.frame("polars")["user"].to_list() == ["bob"]
    figures = lab.series("gpu01", since="2h", points=200).frame("polars")
    assert figures["busy_percent"].max() == pytest.approx(80.0)


def test_a_moment_before_the_history_has_the_hubs_message(lab: api.Fleet) -> None:
    with pytest.raises(UsageError, match="the history begins at 20"):
        lab.view(at="-30d")
    with pytest.raises(UsageError, match="is not a point in time"):
        lab.history(since="soon")


def test_every_history_endpoint_has_a_method(url: str) -> None:
    with closing(HubClient(url)) as hub:
        strips = hub.strips("2h", columns=12, filter="node:gpu01")
        assert (strips.columns, len(strips.rows)) == (12, 2)
        assert [row.gpu.index for row in hub.occupancies("3h").rows] == [0]
        ribbon = hub.ribbon("100m", columns=10)
        assert max(moment.gpus["busy"] for moment in ribbon.moments) == 1.0
        assert {1, 2} <= {moment.nodes_reporting for moment in ribbon.moments}
        (job,) = hub.jobs("3h").rows
        assert len(hub.job(job.id).parts) == 1
        assert hub.storage_status().used_bytes > 0
