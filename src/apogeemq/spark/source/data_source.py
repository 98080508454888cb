"""The format `rocketmq` of spark.read, spark.readStream, df.write and df.writeStream."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from apogeemq.spark.source.batch_reader import BatchReader
from apogeemq.spark.source.read_options import ReadOptions
from apogeemq.spark.source.schema import arrow_schema, check_choice, spark_schema
from apogeemq.spark.source.stream_reader import StreamReader


class RocketMQDataSource(DataSource):
    """Options are checked when a frame is made, before anything is read."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return spark_schema(ReadOptions.read(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = ReadOptions.read(self.options)
        return BatchReader(options, _checked(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = ReadOptions.read(self.options)
        return StreamReader(options, _checked(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from apogeemq.spark.sink.writer import RocketMQArrowWriter

        return RocketMQArrowWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from apogeemq.spark.sink.writer import RocketMQStreamArrowWriter

        return RocketMQStreamArrowWriter(self.options, schema, overwrite)


def _checked(schema: StructType, options: ReadOptions) -> pa.Schema:
    check_choice(schema, options.columns)
    return arrow_schema(schema, all_properties=options.all_properties)
