"""Which rules a view has. What they do with rows is tested with Spark."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.quality import Checks, Rule, checks_of
from apogeemq.spark.pipeline.spec import (
    MALFORMED_RULE,
    Action,
    BodyFormat,
    Decode,
    Malformed,
    PipelineSpec,
    Quality,
    Source,
)


def pipeline(malformed: Malformed | None, *qualities: Quality) -> PipelineSpec:
    decode = Decode(format=BodyFormat.JSON, schema="a INT", malformed=malformed) if malformed is not None else None
    source = Source(name="a", format="rocketmq", is_stream=True, decode=decode)
    return PipelineSpec(name="p", sources={"a": source}, sinks={}, quality={found.name: found for found in qualities})


@pytest.mark.parametrize(
    ("malformed", "rules"),
    [
        (None, None),
        (Malformed.KEEP, None),
        (Malformed.FAIL, (Rule(MALFORMED_RULE, Action.FAIL),)),
        (Malformed.DEAD_LETTER, (Rule(MALFORMED_RULE, Action.DEAD_LETTER),)),
    ],
)
def test_a_decoded_body_is_a_rule(malformed: Malformed | None, rules: tuple[Rule, ...] | None) -> None:
    assert checks_of(pipeline(malformed)) == ({} if rules is None else {"a": Checks("a", rules, is_of_topics=True)})


def test_all_rules_of_a_view_are_together() -> None:
    first = Quality(name="one", view="a", rules={"x": "b > 0", "y": "b < 9"}, action=Action.COUNT)
    second = Quality(name="two", view="a", rules={"z": "c"}, action=Action.FAIL)
    checks = checks_of(pipeline(Malformed.DEAD_LETTER, first, second))["a"]
    assert [rule.name for rule in checks.rules] == [MALFORMED_RULE, "x", "y", "z"]
    assert [rule.name for rule in checks.kept_out] == [MALFORMED_RULE, "z"]
