"""Which tests stay together when several processes share them (`pytest -n 2`)."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

# Their tests share servers that are slow to start. First, because they take longest.
_TOGETHER = ("tests/spark", "tests/interop")


class FolderScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no type hints
    """Hands out files, and the folders above as a whole, in the order of `rank_of`."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        rank = rank_of(nodeid)
        return _TOGETHER[rank] if rank < len(_TOGETHER) else nodeid.partition("::")[0]


def rank_of(nodeid: str) -> int:
    return next((rank for rank, folder in enumerate(_TOGETHER) if nodeid.startswith(f"{folder}/")), len(_TOGETHER))
