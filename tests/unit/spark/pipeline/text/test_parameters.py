"""Values of parameters: given, or defaults, which may refer to other parameters and to the environment."""

from __future__ import annotations

from collections.abc import Mapping

from apogeemq.spark.pipeline.text.parameters import Parameter, expanded, values
from apogeemq.spark.pipeline.text.problems import Problems

PARAMETERS = {
    "topics": Parameter("topics"),
    "to_topics": Parameter("to_topics", "${topics}"),
    "out": Parameter("out", "/data/$${x}/${topics}"),
}


def of(defaults: Mapping[str, str | None], **given: str) -> tuple[dict[str, str | None], list[str]]:
    """The values, and what is wrong."""
    problems = Problems("f", {})
    parameters = {name: Parameter(name, default) for name, default in defaults.items()}
    found = values(parameters, given, {"HOME": "/me"}, problems)
    return found, [problem.removeprefix("f:1: ") for problem in problems.texts()]


def test_a_default_may_refer_to_another_parameter() -> None:
    problems = Problems("file", {})
    assert values(PARAMETERS, {"topics": "orders"}, {}, problems) == {
        "topics": "orders",
        "to_topics": "orders",
        "out": "/data/${x}/orders",
    }
    given = {"topics": "orders", "to_topics": "a${b}"}
    assert values(PARAMETERS, given, {}, problems)["to_topics"] == "a${b}"  # what a person gives is what it is


def test_defaults_may_refer_on_and_on() -> None:
    defaults = {"c": "<${b}>", "b": "${a}${ a }", "a": "1", "kept": "${c}$${c}"}
    assert of(defaults) == ({"c": "<11>", "b": "11", "a": "1", "kept": "<11>${c}"}, [])
    assert of(defaults, b="${a}")[0]["c"] == "<${a}>"


def test_a_default_may_refer_to_the_environment() -> None:
    assert of({"out": "${env:HOME}/out", "deep": "${out}/deep"}) == ({"out": "/me/out", "deep": "/me/out/deep"}, [])
    assert of({"out": "${env:NONE}", "deep": "${out}/deep"}) == (
        {"out": None, "deep": None},
        ["params.out: the environment variable NONE is not set"],
    )


def test_circles_are_named() -> None:
    defaults = {"a": "${b}", "b": "${a}", "own": "${own}", "after": "${a}", "good": "1"}
    assert of(defaults) == (
        {"a": None, "b": None, "own": None, "after": None, "good": "1"},
        [
            "parameters refer to each other in a circle: a → b → a",
            "parameters refer to each other in a circle: own → own",
        ],
    )
    assert of(defaults, a="0", own="2") == ({"a": "0", "b": "0", "own": "2", "after": "0", "good": "1"}, [])


def test_defaults_that_grow_end_somewhere() -> None:
    defaults = {"a0": "0123456789", **{f"a{number}": f"${{a{number - 1}}}" * 10 for number in range(1, 60)}}
    found, wrong = of(defaults)
    assert (len(found["a3"] or ""), found["a4"], found["a59"]) == (10_000, None, None)
    assert wrong == ["params.a4: its default is longer than 65536 characters"]


def test_all_that_is_missing_in_a_list_is_said() -> None:
    problems = Problems("f", {})
    expanded({"a": ["${nope}", "${env:NOPE}"]}, {}, {}, problems)
    assert problems.texts() == [
        "f:1: a: the environment variable NOPE is not set",
        "f:1: a: there is no parameter nope in [params]",
    ]
    before = len(problems)
    problems.add(("a",), "a is wrong")
    assert len(problems) == before


def test_what_needs_a_missing_parameter_is_said_once() -> None:
    problems = Problems("f", {})
    found = values(PARAMETERS, {}, {}, problems)
    document = expanded({"a": {"b": "${to_topics}", "c": ["${out}"], "d": "d"}}, found, {}, problems)
    assert document["a"]["d"] == "d"
    for path in (("a", "b"), ("a", "c", "x"), ("a", "d"), ("a",)):
        problems.add(path, f"{'.'.join(path)} is wrong")
    assert problems.texts() == [
        "f:1: a is wrong",
        "f:1: a.d is wrong",
        "f:1: the parameter topics is not given: --param topics=…",
    ]
