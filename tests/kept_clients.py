"""What a driver of Spark keeps for its process: clients, and the loop they live in."""

from __future__ import annotations

from apogeemq.blocking import background
from apogeemq.client.instance import _instances
from apogeemq.spark import cluster
from apogeemq.spark.routes import journals
from apogeemq.spark.sink import producers


def end_kept_clients() -> None:
    """After tests that have used them: others count clients."""
    if background._current is not None:
        background._current.end()
    for kept in (background, cluster, producers, journals):
        kept._leave_to_parent()
    for key in [key for key in _instances if key[0].is_closed()]:  # their servers are gone, and not all had the time
        del _instances[key]
