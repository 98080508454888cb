"""The step of the mirror pipeline: what of a message goes to the other cluster."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from apogeemq.errors import ConfigError
from apogeemq.model.messages import SYSTEM_PROPERTIES
from apogeemq.model.properties import SHARDING_KEY

ORIGINS: Final = "MIRROR_ORIGINS"
"""Property: the clusters a message has been in, oldest first, with commas between them."""
ORIGIN_ID: Final = "MIRROR_ID"
"""Property: the id its first producer gave it."""

# What Apache's servers and clients leave in stored messages for themselves, besides the names we know.
_LEFT_BY_APACHE: Final = (
    *("BUYER_ID", "CONSUME_START_TIME", "CORRECTION_FLAG", "MAX_OFFSET", "MIN_OFFSET", "MQ2_FLAG", "PGROUP"),
    *("RECONSUME_TIME", "TRANSFER_FLAG", "__transactionId__", "1ST_POP_TIME", "INNER_NUM", "INNER_BASE"),
)

SPREAD: Final = "spread"
BY_QUEUE: Final = "queue"


def mirrored(
    messages: DataFrame, *, topics: str, to_topics: str, cluster: str, to_cluster: str, unkeyed: str = SPREAD
) -> DataFrame:
    """Every message that has not been in `to_cluster` yet, as the topic sink wants it.

    The place it was read from stays with it: that is what the sink tells messages apart by.
    """
    names = _new_names(topics, to_topics)
    _check(cluster, to_cluster, unkeyed)
    properties = sql.coalesce(sql.col("properties"), sql.expr("map()").cast("map<string,string>"))
    origins = sql.split(sql.coalesce(properties[ORIGINS], sql.lit("")), ",")
    return messages.where(~sql.array_contains(origins, to_cluster)).select(
        sql.create_map(*(sql.lit(name) for pair in names.items() for name in pair))[sql.col("topic")].alias("topic"),
        sql.col("topic").alias("source_topic"),
        "broker",
        "queue_id",
        "queue_offset",
        "body",
        "keys",
        "tags",
        _sharding_key(properties, unkeyed).alias("sharding_key"),
        _carried(properties, cluster).alias("properties"),
    )


def _new_names(topics: str, to_topics: str) -> dict[str, str]:
    before, after = ([name.strip() for name in text.split(",") if name.strip()] for text in (topics, to_topics))
    if len(before) != len(after):
        raise ConfigError(f"to_topics is {to_topics!r}: expected as many names as in topics, {topics!r}")
    return dict(zip(before, after, strict=True))


def _check(cluster: str, to_cluster: str, unkeyed: str) -> None:
    for name, value in (("cluster", cluster), ("to_cluster", to_cluster)):
        if not value or "," in value:
            raise ConfigError(f"{name} is {value!r}: expected a name without commas")
    if cluster == to_cluster:
        raise ConfigError(f"cluster and to_cluster are both {cluster!r}: nothing would be mirrored")
    if unkeyed not in (SPREAD, BY_QUEUE):
        raise ConfigError(f"unkeyed is {unkeyed!r}: expected {SPREAD} or {BY_QUEUE}")


def _sharding_key(properties: Column, unkeyed: str) -> Column:
    key = properties[SHARDING_KEY]
    if unkeyed == SPREAD:
        return key
    return sql.coalesce(key, sql.concat_ws("-", "broker", "queue_id"))


def _carried(properties: Column, cluster: str) -> Column:
    """The program's own properties, and where the message comes from."""
    left_behind = [*sorted(SYSTEM_PROPERTIES), *_LEFT_BY_APACHE, ORIGINS, ORIGIN_ID]
    own = sql.map_filter(properties, lambda name, _: ~name.isin(left_behind))
    origins = sql.concat_ws(",", properties[ORIGINS], sql.lit(cluster))
    origin_id = sql.coalesce(properties[ORIGIN_ID], sql.col("msg_id"))
    return sql.map_concat(own, sql.create_map(sql.lit(ORIGINS), origins, sql.lit(ORIGIN_ID), origin_id))
