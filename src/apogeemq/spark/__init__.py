"""Spark on RocketMQ: `register(spark)` makes the formats `rocketmq`, `rocketmq-routes` and `rocketmq-store` known to a
session. Needs the extra: pip install 'apogeemq[spark]'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apogeemq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

NEEDS_EXTRA: Final = "Spark is not installed: pip install 'apogeemq[spark]'"
FILTER_PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make the formats known to this session. ConfigError where Spark or Arrow are missing."""
    require_extra()
    from apogeemq.spark.cold.data_source import StoreDataSource
    from apogeemq.spark.routes.data_source import RoutesDataSource
    from apogeemq.spark.source.data_source import RocketMQDataSource

    if type(spark).getActiveSession() is not spark:
        # Spark looks for names that are taken in the session that is active, not in the one that is asked. This is the
        # public call that makes one active.
        spark.createDataFrame([], "nothing int")
    spark.conf.set(FILTER_PUSH_DOWN, "true")
    for source in (RocketMQDataSource, RoutesDataSource, StoreDataSource):
        spark.dataSource.register(source)


def require_extra() -> None:
    """ConfigError, in one sentence, unless Spark and Arrow can be imported."""
    try:
        import pyarrow  # noqa: F401
        import pyspark.sql.datasource  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"{NEEDS_EXTRA} ({error})") from None
