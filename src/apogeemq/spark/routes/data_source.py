"""`spark.read.format("rocketmq-routes")` and `spark.readStream`: a row for each change of the routes."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from apogeemq.spark.routes.read_options import RouteOptions
from apogeemq.spark.routes.readers import RouteBatchReader, RouteStreamReader
from apogeemq.spark.routes.schema import SPARK_SCHEMA


class RoutesDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq-routes"

    def schema(self) -> StructType:
        RouteOptions.read(self.options)  # what is wrong with them is said before anything begins
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return RouteBatchReader(RouteOptions.read(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return RouteStreamReader(RouteOptions.read(self.options, is_stream=True))
