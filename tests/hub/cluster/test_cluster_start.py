"""What a hub of a cluster needs to start, and what it says where that is missing."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fleet_smi.errors import StateError, UsageError
from fleet_smi.hub.cluster.setup import require_token
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.hub.cluster.agents import Agent
from tests.hub.cluster.conftest import StartHub
from tests.hub.cluster.hub_processes import HubProcess, add_join_token, wait_until_all_see
from tests.hub.cluster.test_cluster import is_live
from tests.machines import wait_until
from tests.nats import Nats, nats_server
from tests.postgres import Postgres, postgres_server


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that a test may stop."""
    with postgres_server() as server:
        yield server


def environment(folder: Path, database: str) -> Mapping[str, str]:
    """The environment of a hub that is run as a program."""
    return {"HOME": str(folder), "PATH": os.environ["PATH"], "FLEET_SMI_HUB_HISTORY": database}


def test_a_hub_without_its_database_ends_with_one_line_and_starts_once_that_is_back(
    tmp_path: Path, nats: Nats, own_postgres: Postgres
) -> None:
    with own_postgres.database() as database:
        token = add_join_token(database)
        one, two = (HubProcess(tmp_path, name, nats.url, database) for name in ("one", "two"))
        try:
            one.start()
            with Agent(tmp_path, "gpu01", [one.url, two.url], token):
                wait_until_all_see([one], 1)
                own_postgres.stop()
                # Tokens are in the database: it could not know any node by its credential.
                arguments = ["hub", "--listen", "127.0.0.1:0", "--cluster", nats.url]
                arguments += ["--state", str(tmp_path / "two")]
                done = run_fleet_smi(*arguments, env=environment(tmp_path, database))
                assert_error_line(done, 1, "the database of the cluster")
                # The other goes on, and takes what is reported.
                wait_until(lambda: "credentials" in (one.problems() or ()))
                assert one.sees(1, one.problems() or ())
                own_postgres.start()
                two.start()  # as its service does, again and again
                wait_until_all_see([one, two], 1)
        finally:
            one.kill()
            two.kill()


def test_a_hub_refuses_the_database_of_another_cluster(
    tmp_path: Path, start_hub: StartHub, postgres: Postgres
) -> None:
    start_hub("one").stop()
    with postgres.database() as other:
        with pytest.raises(StateError, match="the database of another cluster"):
            start_hub("one", hub__history=other)
        # Unless the administrator says so.
        (tmp_path / "one" / "cluster-id").unlink()
        start_hub("one", hub__history=other).stop()


def test_tokens_of_a_cluster_are_managed_on_any_of_its_machines(
    tmp_path: Path, nats: Nats, database: str
) -> None:
    env = {**environment(tmp_path, database), "FLEET_SMI_HUB_CLUSTER": nats.url}

    def run(folder: str, *arguments: str) -> str:
        done = run_fleet_smi("hub", "token", *arguments, "--state", str(tmp_path / folder), env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("one", "add", "--role", "viewer", "--note", "lab")
    (token,) = [line for line in run("two", "list").splitlines() if "lab" in line]
    run("two", "revoke", token.split()[0])
    assert "lab" not in run("one", "list")


def test_nats_on_another_machine_needs_a_token(tmp_path: Path, nats: Nats, database: str) -> None:
    done = run_fleet_smi(
        *("hub", "--state", str(tmp_path / "one"), "--cluster", "nats://nats.example.org:4222"),
        env=environment(tmp_path, database),
    )
    assert_error_line(done, 2, "hub.cluster_token is not set")
    with pytest.raises(UsageError):
        require_token(["nats://127.0.0.1", "nats://10.0.0.1"], None, is_open=False)
    require_token(["nats://localhost:4222", "nats://[::1]:4222"], None, is_open=False)
    require_token(["nats://10.0.0.1"], "token", is_open=False)
    require_token(["nats://10.0.0.1"], None, is_open=True)


def test_hubs_connect_to_nats_with_its_token(
    tmp_path: Path, start_hub: StartHub, database: str
) -> None:
    (tmp_path / "secured").mkdir()
    with nats_server(tmp_path / "secured", 'authorization { token: "between-hubs" }') as secured:
        options = {"hub__cluster": secured.url, "hub__history": database}
        one, two = (
            start_hub(name, hub__cluster_token="between-hubs", **options) for name in ("one", "two")
        )
        with Agent(tmp_path, "gpu01", [one.url], one.token("join")):
            wait_until(lambda: is_live(two, "gpu01"))
        stranger = start_hub("three", hub__cluster_token="guessed-by-somebody", **options)
        wait_until(lambda: "NATS" in (stranger.server.hub.link.problem or ""))  # type: ignore[attr-defined]
        stranger.stop()
        two.stop()
        one.stop()
