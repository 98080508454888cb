"""Arrow batches through a Python function on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from apogeemq.spark.quoting import quoted

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def map_in_arrow(
    df: DataFrame, function: Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]], schema: StructType
) -> DataFrame:
    """As `df.mapInArrow`, which asks for pandas and then does without it."""
    from pyspark.sql import functions as sql
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    mapped = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapped(*(sql.col(quoted(name)) for name in df.columns))
    return ClassicDataFrame(df._jdf.mapInArrow(column._jc, False, None), df.sparkSession)
