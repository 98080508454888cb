from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.our_servers import our_servers


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a name server that knows a broker; both are processes of their own."""
    with our_servers(tmp_path_factory.mktemp("servers")) as found:
        yield found
