"""Dead letters that fit into a message, whatever the row was: one that does not would stop the pipeline for good."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final

from apogeemq.model.messages import SYSTEM_PROPERTIES
from apogeemq.model.properties import MAX_SIZE
from apogeemq.spark.options import OptionReader
from apogeemq.spark.sink.write_options import DEFAULT_MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OWN_PREFIX: Final = "DLQ_"
REASON: Final = "DLQ_REASON"
TRUNCATED: Final = "DLQ_TRUNCATED"

_ROOM: Final = MAX_SIZE - 1024  # bytes of properties; sink and broker add some of their own
_SHORT_REASON: Final = 100  # characters
_LONGEST: Final = 500  # of any other value that is made here: all of them together have room
_SEPARATORS: Final = "\x01\x02"
_NAME_SIZE: Final = 6  # of KEYS or TAGS, with what separates them

_OWN: Final = "__own"
_MADE: Final = "__made"
_IS_CUT: Final = "__is_cut"
_LEFT: Final = "__left"


def fitting(letters: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Letters for a topic sink with these options. The reason is shortened first, then own properties are left out,
    then keys and tags; a body that is too long is cut. Of each, TRUNCATED says so."""
    from pyspark.sql import functions as sql

    most = OptionReader(options).whole("maxMessageBytes", DEFAULT_MAX_MESSAGE_BYTES)
    names = [name for name in ("keys", "tags") if name in letters.columns]
    letters = _with_parts(letters)
    own, made, is_cut, left = (sql.col(name) for name in (_OWN, _MADE, _IS_CUT, _LEFT))

    used = reduce(lambda one, other: one + other, map(_name_size, names), _size(own) + _size(made))
    is_too_long = sql.octet_length("body") > most
    letters = letters.withColumn(_LEFT, sql.lit(_ROOM) - used)
    letters = letters.withColumn(_IS_CUT, is_cut | is_too_long | (left < 0))
    letters = letters.withColumn(_MADE, sql.when(left < 0, _with_short_reason(made)).otherwise(made))

    letters = letters.withColumn(_LEFT, sql.lit(_ROOM) - _size(made))
    for name in names:
        letters = letters.withColumn(name, sql.when(_name_size(name) <= left, sql.col(name)))
        letters = letters.withColumn(_LEFT, left - _name_size(name))
    mark = sql.create_map(sql.lit(TRUNCATED), sql.lit("true"))
    kept = sql.map_concat(_first_of(own, left), made)
    return letters.withColumns(
        {
            "properties": sql.when(is_cut, sql.map_concat(kept, mark)).otherwise(kept),
            "body": sql.when(is_too_long, sql.substring("body", 1, most)).otherwise(sql.col("body")),
        }
    ).drop(_OWN, _MADE, _IS_CUT, _LEFT)


def _with_parts(letters: DataFrame) -> DataFrame:
    """With what a message may hold of the row's own properties, and of those that are made here."""
    from pyspark.sql import functions as sql

    given = sql.col("properties")
    own = sql.map_filter(given, lambda name, _: ~name.startswith(OWN_PREFIX) & ~name.isin(*SYSTEM_PROPERTIES))
    fine = sql.map_filter(own, lambda name, value: (name != "") & (value != "") & _is_plain(name) & _is_plain(value))
    made = sql.map_filter(given, lambda name, _: name.startswith(OWN_PREFIX))
    made = sql.transform_values(
        made,
        lambda name, value: sql.when(name == REASON, _plain(value)).otherwise(
            sql.substring(_plain(value), 1, _LONGEST)
        ),
    )
    letters = letters.withColumns({_OWN: fine, _MADE: made, _IS_CUT: sql.size(fine) < sql.size(own)})
    if "keys" in letters.columns:
        letters = letters.withColumn("keys", sql.transform("keys", _plain))
    return letters.withColumn("tags", _plain(sql.col("tags"))) if "tags" in letters.columns else letters


def _with_short_reason(made: Column) -> Column:
    from pyspark.sql import functions as sql

    def shortened(name: Column, value: Column) -> Column:
        is_long = (name == REASON) & (sql.length(value) > _SHORT_REASON)
        return sql.when(is_long, sql.concat(sql.substring(value, 1, _SHORT_REASON), sql.lit("…"))).otherwise(value)

    return sql.transform_values(made, shortened)


def _first_of(own: Column, left: Column) -> Column:
    """Of the properties, one after the other, those for which there is room."""
    from pyspark.sql import functions as sql

    none = sql.lit([]).cast("array<struct<key: string, value: string>>")
    nothing = sql.struct(left.alias("left"), none.alias("kept"))

    def with_next(found: Column, entry: Column) -> Column:
        rest = found["left"] - _entry_size(entry["key"], entry["value"])
        more = sql.struct(rest.alias("left"), sql.array_append(found["kept"], entry).alias("kept"))
        return sql.when(rest >= 0, more).otherwise(found)

    kept = sql.aggregate(sql.map_entries(own), nothing, with_next, lambda found: found["kept"])
    return sql.when(_size(own) <= left, own).otherwise(sql.map_from_entries(kept))


def _size(properties: Column) -> Column:
    from pyspark.sql import functions as sql

    sizes = sql.transform(sql.map_entries(properties), lambda entry: _entry_size(entry["key"], entry["value"]))
    return sql.aggregate(sizes, sql.lit(0), lambda total, size: total + size)


def _entry_size(name: Column, value: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.octet_length(name) + sql.octet_length(value) + 2


def _name_size(name: str) -> Column:
    from pyspark.sql import functions as sql

    text = sql.array_join(sql.col(name), " ", "") if name == "keys" else sql.col(name)
    return sql.coalesce(sql.octet_length(text) + _NAME_SIZE, sql.lit(0))


def _plain(text: Column) -> Column:
    """Without the characters that separate properties."""
    from pyspark.sql import functions as sql

    return sql.translate(text, _SEPARATORS, "  ")


def _is_plain(text: Column) -> Column:
    return _plain(text) == text
