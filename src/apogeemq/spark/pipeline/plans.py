"""What Spark makes of a view: whether it has to remember rows of earlier epochs for it, and where rows come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Rows of a result come from rows of the same epoch alone, each from one row of a stream.
_ROW_WISE: Final = frozenset(
    (
        *("Project", "Filter", "SubqueryAlias", "View", "Generate", "Union", "EventTimeWatermark", "WithCTE"),
        *("CTERelationDef", "CTERelationRef", "MapInPandas", "MapInArrow", "PythonMapInArrow", "MapPartitions"),
        *("MapElements", "SerializeFromObject", "DeserializeToObject", "ResolvedHint", "Repartition"),
        *("RepartitionByExpression", "RebalancePartitions", "Expand", "CollectMetrics"),
    )
)
_STREAM_LEAVES: Final = ("StreamingRelation", "StreamingDataSourceV2", "StreamingExecutionRelation")


def state_count(frame: DataFrame) -> int:
    """How many parts of the plan remember: aggregations, deduplication, joins of streams, whatever is not known."""
    return sum(_remembers(node) for node in _streaming_nodes(_plan(frame)))


def is_deterministic(frame: DataFrame) -> bool:
    return all(node.deterministic() for node in _streaming_nodes(_plan(frame)))


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _streaming_nodes(node: Any) -> Iterator[Any]:
    """The parts that a stream flows through; tables that are joined to it may be made in any way."""
    if not node.isStreaming():
        return
    yield node
    children = node.children()
    for number in range(children.size()):
        yield from _streaming_nodes(children.apply(number))


def _remembers(node: Any) -> bool:
    name = node.nodeName()
    if name in _ROW_WISE or name.startswith(_STREAM_LEAVES):
        return False
    if name == "Join":
        children = node.children()
        return sum(bool(children.apply(number).isStreaming()) for number in range(children.size())) > 1
    return True
