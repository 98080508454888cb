"""`spark.read.format("rocketmq-store")`: the messages in a broker's store folder, read without the broker."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from apogeemq.errors import StorageFailed
from apogeemq.spark.cold.folder import OpenFile, opened
from apogeemq.spark.cold.log_rows import LogRows
from apogeemq.spark.cold.piece_scan import PieceScan
from apogeemq.spark.cold.plan import tasks_of
from apogeemq.spark.cold.planning import Piece
from apogeemq.spark.cold.push_down import narrowed
from apogeemq.spark.cold.scan_options import ScanOptions
from apogeemq.spark.filters import FilterTaker
from apogeemq.spark.reading.slices import slices_of
from apogeemq.spark.source.schema import MAY_BE_NULL, arrow_schema, check_choice, spark_schema
from apogeemq.spark.worker_memory import settle_worker

log = logging.getLogger(__name__)

# A folder does not say of which broker it is.
_MAY_BE_NULL: Final = MAY_BE_NULL | {"broker"}


class StoreDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        return spark_schema(ScanOptions.read(self.options).columns, _MAY_BE_NULL)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = ScanOptions.read(self.options)
        check_choice(schema, options.columns)
        return StoreReader(options, arrow_schema(schema, _MAY_BE_NULL, all_properties=options.all_properties))


class StorePartition(InputPartition):
    """Pieces of the log that follow each other."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


class StoreReader(FilterTaker):
    def __init__(self, options: ScanOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def take_filters(self, filters: list[Filter]) -> Iterable[Filter]:
        wanted, rest = narrowed(self._options.wanted, filters)
        self._options = msgspec.structs.replace(self._options, wanted=wanted)
        return rest

    def partitions(self) -> list[InputPartition]:
        return [StorePartition(pieces) for pieces in tasks_of(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StorePartition):
            return  # Spark's own, when there is nothing to read
        settle_worker()
        options = self._options
        checks_crc = options.checks_crc and "body" in self._schema.names
        rows = LogRows(self._schema, options.wanted, options.broker, checks_crc=checks_crc)
        for piece in partition.pieces:
            yield from self._read_piece(piece, rows)

    def _read_piece(self, piece: Piece, rows: LogRows) -> Iterator[pa.RecordBatch]:
        try:
            with opened(piece.file.folder, piece.file.name) as file:
                yield from self._read_open(file, piece, rows)
        except FileNotFoundError as error:
            problem = f"{piece.file} was deleted before it could be read"
            if not self._options.skips_damage:
                raise StorageFailed(f"{problem} (option onCorrupt=skip goes on without it)") from error
            log.warning("%s", problem)

    def _read_open(self, file: OpenFile, piece: Piece, rows: LogRows) -> Iterator[pa.RecordBatch]:
        scan = PieceScan(
            piece,
            lambda offset, length: file.read(offset - piece.file.start, length),
            skips_damage=self._options.skips_damage,
        )
        for chunk in scan.chunks():
            for batch in rows.batches(chunk, scan.pass_over):
                yield from slices_of(batch)
        if scan.damaged_bytes or scan.damaged_records:
            log.warning(
                "%s: passed over %d bytes without records and %d damaged messages",
                piece.file,
                scan.damaged_bytes,
                scan.damaged_records,
            )
