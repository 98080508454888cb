"""Whether each row of a DataFrame still belongs to one message of its source: then the message's place tells the row
apart from all others, in every run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Steps that take rows one after the other. All others may bring rows together, mix or repeat them.
_ROW_BY_ROW: Final = frozenset(
    (
        *("Project", "Filter", "Generate", "SubqueryAlias", "View", "EventTimeWatermark", "ResolvedHint"),
        *(
            "MapInArrow",
            "MapInPandas",
            "PythonMapInArrow",
            "MapPartitions",
            "SerializeFromObject",
            "DeserializeToObject",
        ),
        *("WithCTE", "CTERelationDef", "CTERelationRef", "CollectMetrics", "UnresolvedHint"),
        *("LogicalRDD", "LocalRelation", "LogicalRelation"),
        *("DataSourceV2Relation", "DataSourceV2ScanRelation", "StreamingDataSourceV2Relation"),
        *("StreamingDataSourceV2ScanRelation", "StreamingRelationV2", "StreamingRelation", "PythonDataSourceRelation"),
    )
)
_EXISTING: Final = "LogicalRDD"
_MIXING: Final = re.compile(r"\b(\w*(?:Shuffled|Union|Zipped|Cartesian|StateStore|CoGrouped)\w*RDD\d*)\[")
_MAX_NODES: Final = 10_000


def mixing_step(df: DataFrame) -> str | None:
    """The name of a step after which a row may belong to several messages, or to none; None when there is none.

    A batch of a stream hides the steps before it in an RDD, whose ancestors are looked at.
    """
    for node in _nodes(df._jdf.queryExecution().analyzed()):
        name = str(node.getClass().getSimpleName())
        if name not in _ROW_BY_ROW:
            return name
        if name == _EXISTING and (found := mixing_ancestor(node.rdd().toDebugString())) is not None:
            return found
    return None


def mixing_ancestor(lineage: str) -> str | None:
    """The first RDD of a lineage, as Spark describes it, that takes rows from several places."""
    match = _MIXING.search(lineage)
    return match[1] if match is not None else None


def _nodes(plan: Any) -> Iterator[Any]:
    waiting = [plan]
    for _ in range(_MAX_NODES):
        if not waiting:
            return
        node = waiting.pop()
        yield node
        children = node.children()
        waiting += [children.apply(number) for number in range(children.size())]
