"""Rows that break a rule: found, counted, and made into dead letters that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from apogeemq.spark.pipeline.decoding import MALFORMED
from apogeemq.spark.pipeline.spec import MALFORMED_RULE, SOURCE_COORDINATES, TOPICS, Action, Malformed, PipelineSpec
from apogeemq.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ID: Final = "dead_letter_id"
BROKEN: Final = "__broken"

_MAX_REASON: Final = 2000  # characters; a message's properties have little room


class Rule(msgspec.Struct, frozen=True):
    name: str
    action: Action
    expression: str = ""  # empty: the body is what its schema says


class Checks(msgspec.Struct, frozen=True):
    """The rules of one view."""

    view: str
    rules: tuple[Rule, ...]
    is_of_topics: bool = False  # each row is a message of its own; rows of steps may share one

    @property
    def kept_out(self) -> list[Rule]:
        """Rules whose rows leave the view."""
        return [rule for rule in self.rules if rule.action is not Action.COUNT]


def checks_of(spec: PipelineSpec) -> dict[str, Checks]:
    """By view; only of views that have rules."""
    found: dict[str, list[Rule]] = {}
    for source in spec.sources.values():
        decode = source.decode
        if decode is not None and decode.is_rule:
            action = Action.FAIL if decode.malformed is Malformed.FAIL else Action.DEAD_LETTER
            found.setdefault(source.name, []).append(Rule(MALFORMED_RULE, action))
    for quality in spec.quality.values():
        rules = [Rule(name, quality.action, expression) for name, expression in quality.rules.items()]
        found.setdefault(quality.view, []).extend(rules)
    of_topics = {source.name for source in spec.sources.values() if source.format == TOPICS}
    return {view: Checks(view, tuple(rules), view in of_topics) for view, rules in found.items()}


def passing(frame: DataFrame, checks: Checks | None) -> DataFrame:
    """The rows that stay in the view. One that breaks a rule whose action is `fail` fails the query, with its name."""
    from pyspark.sql import functions as sql

    if checks is not None:
        for rule in checks.kept_out:
            holds = ~_is_broken(rule, checks)
            if rule.action is Action.FAIL:
                reason = sql.lit(failing_sentence(rule, checks))
                holds = sql.when(holds, sql.lit(True)).otherwise(sql.raise_error(reason).cast("boolean"))
            frame = frame.where(holds)
    return frame.drop(MALFORMED)


def failing_sentence(rule: Rule, checks: Checks, rows: int = 1) -> str:
    who = f"a row of {checks.view} breaks" if rows == 1 else f"{rows:,} rows of {checks.view} break"
    return f"{who} the rule {rule.name}: {rule.expression or 'its body'}"


class BrokenCounts(msgspec.Struct, frozen=True):
    rows: int  # all of them
    by_rule: dict[str, int]
    dead_letters: int  # rows that break a rule whose rows become dead letters


def broken_counts(frame: DataFrame, checks: Checks) -> BrokenCounts:
    """One pass over the rows. A rule whose action is `fail` looks, as in `passing`, only at rows that no rule before it
    has taken out: those may be guarded by it."""
    from pyspark.sql import functions as sql

    counts: list[Column] = []
    is_dead = sql.lit(False)
    for number, rule in enumerate(checks.rules):
        is_broken = _is_broken(rule, checks)
        counted = is_broken & ~is_dead if rule.action is Action.FAIL else is_broken
        counts.append(sql.count_if(counted).alias(f"rule{number}"))
        if rule.action is Action.DEAD_LETTER:
            is_dead = is_dead | is_broken
    row = frame.agg(sql.count(sql.lit(1)).alias("rows"), sql.count_if(is_dead).alias("dead"), *counts).collect()[0]
    by_rule = {rule.name: int(row[f"rule{number}"]) for number, rule in enumerate(checks.rules)}
    return BrokenCounts(int(row["rows"]), by_rule, int(row["dead"]))


def dead_letters(frame: DataFrame, checks: Checks, pipeline: str) -> DataFrame:
    """Messages for the rows that break rules: the body as it was, or the row as JSON; who and why in properties.

    ID is the same for the same row whenever the epoch is done again: the place of its message, or where rows may share
    one, its content and how many rows of the same content came before it.
    """
    from pyspark.sql import functions as sql

    columns = [name for name in frame.columns if name != MALFORMED]
    rules = [rule for rule in checks.rules if rule.action is Action.DEAD_LETTER]
    broken = sql.array_compact(sql.array(*(sql.when(_is_broken(rule, checks), sql.lit(rule.name)) for rule in rules)))
    marked = frame.withColumn(BROKEN, broken).where(sql.size(BROKEN) > 0)
    as_json = sql.to_json(sql.struct(*(sql.col(quoted(name)) for name in columns)))
    has_place = checks.is_of_topics and set(SOURCE_COORDINATES) <= set(columns)
    marked = marked.withColumn(ID, _place_id(checks.view) if has_place else _content_id(checks.view, as_json))
    body = as_json.cast("binary")
    if dict(frame.dtypes).get("body") in ("binary", "string"):
        own = sql.col("body").cast("binary")
        body = sql.when(sql.octet_length(own) > 0, own).otherwise(body)  # no message has an empty body
    found = [body.alias("body"), sql.col(ID), _properties(frame, checks, pipeline).alias("properties")]
    if dict(frame.dtypes).get("keys") == "array<string>":
        found.append(sql.col("keys"))
    if dict(frame.dtypes).get("tags") == "string":
        found.append(sql.col("tags"))
    return marked.select(*found)


def _is_broken(rule: Rule, checks: Checks) -> Column:
    """A malformed body breaks that rule alone: there is nothing for the others to look at."""
    from pyspark.sql import functions as sql

    if not rule.expression:
        return sql.col(MALFORMED)
    broken = ~sql.coalesce(sql.expr(f"({rule.expression})"), sql.lit(False))
    return ~sql.col(MALFORMED) & broken if any(not other.expression for other in checks.rules) else broken


def _place_id(view: str) -> Column:
    from pyspark.sql import functions as sql

    return sql.concat_ws("/", sql.lit(view), *(sql.col(name).cast("string") for name in SOURCE_COORDINATES))


def _content_id(view: str, as_json: Column) -> Column:
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    content = sql.sha2(as_json, 256)
    occurrence = sql.row_number().over(Window.partitionBy(content).orderBy(sql.lit(1)))
    return sql.concat_ws("/", sql.lit(view), content, occurrence.cast("string"))


def _properties(frame: DataFrame, checks: Checks, pipeline: str) -> Column:
    """DLQ_ORIGIN_TOPIC and DLQ_ORIGIN_MESSAGE_ID are what Apache's brokers call them."""
    from pyspark.sql import functions as sql

    kinds = dict(frame.dtypes)
    sentences = {rule.name: rule.expression or "the body is not what its schema says" for rule in checks.rules}
    reasons = sql.create_map(*(sql.lit(text) for name in sentences for text in (name, f"{name}: {sentences[name]}")))
    reason = sql.array_join(sql.transform(sql.col(BROKEN), lambda name: reasons[name]), "; ")
    said = {
        "DLQ_PIPELINE": sql.lit(pipeline),
        "DLQ_VIEW": sql.lit(checks.view),
        "DLQ_RULES": sql.array_join(sql.col(BROKEN), ","),
        "DLQ_REASON": sql.substring(reason, 1, _MAX_REASON),
    }
    origins = {
        "DLQ_ORIGIN_TOPIC": "topic",
        "DLQ_ORIGIN_MESSAGE_ID": "msg_id",
        "DLQ_ORIGIN_BROKER": "broker",
        "DLQ_ORIGIN_QUEUE_ID": "queue_id",
        "DLQ_ORIGIN_OFFSET": "queue_offset",
    }
    said |= {name: sql.col(column).cast("string") for name, column in origins.items() if column in kinds}
    made = sql.create_map(*(part for name, value in said.items() for part in (sql.lit(name), value)))
    made = sql.map_filter(made, lambda _, value: value.isNotNull() & (value != ""))
    if kinds.get("properties") != "map<string,string>":
        return made
    own = sql.map_filter(sql.col("properties"), lambda name, value: value.isNotNull() & ~name.startswith("DLQ_"))
    return sql.coalesce(sql.map_concat(own, made), made)
