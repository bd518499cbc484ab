"""`sudo fleet-smi hub token …` in a folder of the hub's own user, who may be hostile."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import require_root

HUB_USER = 61184  # systemd never assigns it, and Debian to nobody


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter, as `/var/lib` is; `tmp_path` is closed to them."""
    require_root("make folders of other users")
    made = Path(tempfile.mkdtemp(prefix="fleet-smi-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def state(folder: Path) -> Path:
    """The state folder of the hub's user."""
    made = folder / "hub"
    made.mkdir(mode=0o700)
    os.chown(made, HUB_USER, HUB_USER)
    return made


@pytest.fixture
def victim(folder: Path) -> Path:
    """A file of root's."""
    made = folder / "shadow"
    made.write_text("root:secret")
    made.chmod(0o644)
    return made


def environment(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder / "home"), "PATH": os.environ["PATH"]}


def test_what_root_creates_belongs_to_the_hubs_user(folder: Path, state: Path) -> None:
    run = ("hub", "token", "add", "--role", "viewer", "--state", str(state))
    done = run_fleet_smi(*run, env=environment(folder))
    assert (done.returncode, done.stdout[:12]) == (0, "fsmi_viewer_"), done.stderr
    assert {path.stat().st_uid for path in state.iterdir()} == {HUB_USER}
    listed = run_fleet_smi("hub", "token", "list", "--state", str(state), env=environment(folder))
    assert " viewer " in listed.stdout


@pytest.mark.parametrize("link", ["hub.db", "hub.db-wal", "hub.db-journal", "tls.pem"])
def test_links_of_the_hubs_user_give_away_nothing_of_roots(
    folder: Path, state: Path, victim: Path, link: str
) -> None:
    if link.startswith("hub.db-"):
        run_fleet_smi("hub", "token", "list", "--state", str(state), env=environment(folder))
    (state / link).symlink_to(victim)
    os.chown(state / link, HUB_USER, HUB_USER, follow_symlinks=False)
    for command in (("token", "add", "--role", "admin"), ("join-command",)):
        run_fleet_smi("hub", *command, "--state", str(state), env=environment(folder))
    status = victim.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (0, 0o644)
    assert victim.read_text() == "root:secret"


def test_root_creates_nothing_where_a_link_of_another_user_leads(folder: Path) -> None:
    home = folder / "home"
    home.mkdir()
    os.chown(home, HUB_USER, HUB_USER)
    (folder / "etc").mkdir()
    (home / "state").symlink_to(folder / "etc")
    os.chown(home / "state", HUB_USER, HUB_USER, follow_symlinks=False)
    run = ("hub", "token", "add", "--role", "viewer", "--state", str(home / "state"))
    done = run_fleet_smi(*run, env=environment(folder))
    assert_error_line(done, 1, f"belongs to {HUB_USER}: run this as {HUB_USER}")
    assert list((folder / "etc").iterdir()) == []


def test_root_runs_no_hub_in_the_folder_of_another_user(folder: Path, state: Path) -> None:
    done = run_fleet_smi("hub", "--state", str(state), env=environment(folder))
    assert_error_line(done, 1, f"{state} belongs to {HUB_USER}: run this as {HUB_USER}")
    assert list(state.iterdir()) == []
