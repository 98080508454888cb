"""Values of parameters: given, or defaults, which may refer to other parameters."""

from __future__ import annotations

from apogeemq.spark.pipeline.text.parameters import Parameter, values
from apogeemq.spark.pipeline.text.problems import Problems

PARAMETERS = {
    "topics": Parameter("topics"),
    "to_topics": Parameter("to_topics", "${topics}"),
    "out": Parameter("out", "/data/$${x}/${topics}"),
}


def test_a_default_may_refer_to_another_parameter() -> None:
    problems = Problems("file", {})
    assert values(PARAMETERS, {"topics": "orders"}, problems) == {
        "topics": "orders",
        "to_topics": "orders",
        "out": "/data/${x}/orders",
    }
    given = {"topics": "orders", "to_topics": "a${b}"}
    assert values(PARAMETERS, given, problems)["to_topics"] == "a${b}"  # what a person gives is what it is
