"""The credentials that the tests of access share."""

from collections.abc import Iterator

import pytest

from tests.server.credentials_of_a_hub import (
    House,
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    built = House(tmp_path_factory.mktemp("house") / "state")
    yield built
    built.close()
