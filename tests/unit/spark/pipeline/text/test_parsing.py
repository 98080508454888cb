"""A pipeline file as text: what it becomes, and everything that is wrong with it, at once and with lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.spark.pipeline.spec import (
    Action,
    BodyFormat,
    Malformed,
    OutputMode,
    SinkKind,
    Trigger,
    Watermark,
)
from apogeemq.spark.pipeline.text.parsing import declared_parameters
from apogeemq.spark.pipeline.validation import TABLE_RULES
from tests.unit.spark.pipeline.text.pipeline_texts import SINK, TABLE, parse, problems, with_part

GOOD = """\
[pipeline]
name = "orders"
trigger = "5 seconds"
checkpoint = "/c"

[params]
server = "127.0.0.1:9876"
out = { help = "where to" }

[sources.orders]
format = "rocketmq"
watermark = { column = "born_timestamp", delay = "10 minutes" }
[sources.orders.options]
nameServer = "${server}"
subscribe = "orders"
[sources.orders.decode]
format = "json"
schema = { id = "string", price = "double" }

[steps.totals]
sql = "SELECT count(*) AS n FROM Lines"
[steps.lines]
sql = "SELECT value.* FROM ORDERS"

[quality.orders.rules]
positive = "value.price > 0"

[dead_letters]
topic = "dead"
options = { nameServer = "${server}" }

[sinks.files]
from = "lines"
kind = "parquet"
path = "${out}/$${literal}"
partition_by = "id"
[sinks.totals]
from = "TOTALS"
kind = "topic"
topic = "t"
mode = "complete"
id_columns = ["n"]
options = { nameServer = "${server}" }
"""


def test_a_good_file() -> None:
    spec = parse(GOOD, out="/data")
    assert (spec.name, spec.checkpoint, spec.trigger, spec.is_streaming) == ("orders", "/c", Trigger(5000), True)
    source = spec.sources["orders"]
    assert source.is_stream and source.options == {"nameServer": "127.0.0.1:9876", "subscribe": "orders"}
    assert source.watermark == Watermark("born_timestamp", "600000 milliseconds")
    assert source.decode is not None
    assert (source.decode.format, source.decode.schema) == (BodyFormat.JSON, "`id` string, `price` double")
    assert (source.decode.into, source.decode.malformed) == ("value", Malformed.DEAD_LETTER)
    assert list(spec.steps) == ["lines", "totals"]  # in the order of reading
    assert spec.steps["lines"].inputs == ("orders",) and spec.steps["totals"].inputs == ("lines",)
    assert spec.quality["orders"].action is Action.DEAD_LETTER
    assert spec.quality["orders"].view == "orders"
    assert spec.sinks["files"].path == "/data/${literal}"
    assert spec.sinks["files"].partition_by == ("id",)
    assert (spec.sinks["totals"].view, spec.sinks["totals"].mode) == ("totals", OutputMode.COMPLETE)
    assert spec.dead_letters is not None and spec.dead_letters.kind is SinkKind.TOPIC


def test_the_example_file_is_good() -> None:
    file = Path(__file__).parents[5] / "examples" / "pipelines" / "orders.toml"
    assert parse(file.read_text(), out="/data").sinks.keys() == {"topic", "files"}
    assert [parameter.default for parameter in declared_parameters(file.read_text(), "f").values()] == [
        "127.0.0.1:9876",
        None,
    ]


def test_all_errors_at_once_in_the_order_of_their_lines() -> None:
    text = """\
[pipeline]
nam = "orders"
trigger = "sometimes"
[sources.orders]
format = "rocketmq"
[sources.orders.decode]
format = "jsn"
schema = "id STRNG"
[steps.lines]
sql = "SELECT * FROM oders"
[steps.more]
sql = "DROP TABLE orders"
[steps.both]
sql = "SELECT 1"
python = "a:b"
from = ["orders"]
[quality.line]
rules = { random = "rand() > 0.5", empty = "" }
[sinks.files]
from = "line"
kind = "parquet"
mode = "update"
[sinks.console]
from = "lines"
kind = "consol"
partition_by = 3
[sink.other]
"""
    assert problems(text) == [
        "1: pipeline: name is missing: the name of the pipeline",
        "2: unknown key nam in [pipeline]; did you mean name?",
        "3: pipeline.trigger: 'sometimes': expected available-now or once, or an interval such as 5 seconds",
        "4: sources.orders.options: option nameServer is missing: the address of a name server, such as 127.0.0.1:9876",
        "4: sources.orders.options: what to read is missing: "
        "give exactly one of the options subscribe, subscribePattern, assign",
        "6: sources.orders.decode: malformed bodies have nowhere to go: "
        "add [dead_letters], or set malformed to fail or keep",
        "7: sources.orders.decode.format: 'jsn' is not one of json, avro, protobuf; did you mean json?",
        "8: sources.orders.decode.schema: unreadable schema: "
        "'strng' is not a type of Spark (the type of id); did you mean string?",
        "10: steps.lines.sql: there is no view oders; did you mean orders?",
        "12: steps.more.sql: expected a query, which begins with SELECT, WITH, FROM, VALUES or TABLE",
        "13: steps.both: a step has either sql (or sql_file) or python, not both",
        "16: steps.both.from: is for python steps; SQL names the views it reads in its text",
        "17: quality.line: rows that fail have nowhere to go: add [dead_letters], or set action to fail or count",
        "17: quality.line: there is no view line; did you mean lines?",
        "18: quality.line.rules.empty: the expression is empty",
        "18: quality.line.rules.random: rand may say something else when an epoch is done again",
        "19: sinks.files: path is missing: the folder parquet is written to",
        "20: sinks.files.from: there is no view line; did you mean lines?",
        "22: sinks.files.mode: parquet cannot update, only append",
        "25: sinks.console.kind: 'consol' is not one of topic, parquet, json, csv, orc, delta, console, jdbc; "
        "did you mean console?",
        "26: sinks.console.partition_by: 3: expected a text or a list of texts",
        "27: unknown key sink in the file; did you mean sinks?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = [", "1: not TOML: Invalid value (at end of document)"),
        ("a = 1\nb = = 2\n", "2: not TOML: Invalid value (at line 2, column 5)"),
        ("a = 1\na = 2\n", "2: not TOML: Cannot overwrite a value (at line 2, column 6)"),
    ],
)
def test_what_is_not_toml(text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_an_empty_file() -> None:
    assert problems("") == [
        "1: pipeline: the table [pipeline] is missing: it names the pipeline",
        "1: there are no sinks: [sinks.NAME]",
        "1: there are no sources: [sources.NAME]",
    ]


def test_parameters() -> None:
    assert problems(GOOD) == ["8: the parameter out (where to) is not given: --param out=…"]
    assert problems(GOOD, out="x", ot="y") == ["6: there is no parameter ot; did you mean out?"]
    assert problems(GOOD.replace("${out}", "${aut}"), out="x") == [
        "35: sinks.files.path: there is no parameter aut in [params]; did you mean out?"
    ]
    assert problems(with_part(SINK + "[param]\n")) == ["11: unknown key param in the file; did you mean params?"]
    hidden = GOOD.replace('subscribe = "orders"', 'subscribe = "${out}"').replace(
        'delay = "10 minutes"', 'delay = "${out}"'
    )
    assert problems(hidden) == problems(GOOD)  # of what needs it, nothing more can be said
    spec = parse(with_part(f'secretKey = "${{env:SECRET}}"\naccessKey = "k"\n{SINK}'))
    assert spec.sources["a"].options["secretKey"] == "hush"
    assert problems(with_part(f'tags = "${{env:NONE}}"\n{SINK}')) == [
        "8: sources.a.options.tags: the environment variable NONE is not set"
    ]


@pytest.mark.parametrize(
    ("trigger", "interval_ms"),
    [("once", None), ("available-now", None), ("10s", 10_000), ("1 minute", 60_000), ("0 seconds", 0)],
)
def test_triggers(trigger: str, interval_ms: int | None) -> None:
    text = with_part(SINK).replace('name = "p"', f'name = "p"\ntrigger = "{trigger}"')
    assert parse(text).trigger == Trigger(interval_ms)


@pytest.mark.parametrize("trigger", ["10", "5 parsecs", "-1s", "once more"])
def test_bad_triggers(trigger: str) -> None:
    text = with_part(SINK).replace('name = "p"', f'name = "p"\ntrigger = "{trigger}"')
    assert [problem.split(":")[0] for problem in problems(text)] == ["3"]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            SINK + '[steps.x]\nsql = "FROM y"\n[steps.y]\nsql = "FROM z"\n[steps.z]\nsql = "FROM x"\n',
            ["11: steps read each other in a circle: x → y → z → x"],
        ),
        (
            SINK + '[steps.x]\nsql = "FROM x"\n[steps.y]\nsql = "FROM z"\n[steps.z]\nsql = "FROM y"\n',
            ["11: steps read each other in a circle: x → x", "13: steps read each other in a circle: y → z → y"],
        ),
        (SINK + '[steps.A]\nsql = "SELECT 1"\n', ["11: steps.A: there is a view of this name: sources.a"]),
        (
            SINK + '[steps."x y"]\nsql = "SELECT 1"\n',
            ["11: steps.x y: the name of a view is made of letters, digits and _"],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "parquet"\npath = "/x/"\n'
            '[sinks.t]\nfrom = "a"\nkind = "json"\npath = "/x"\n',
            ["15: sinks.t writes to the same place as sinks.s: /x"],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "parquet"\npath = "./x/y/.."\n'
            '[sinks.t]\nfrom = "a"\nkind = "json"\npath = "x/"\n',
            ["15: sinks.t writes to the same place as sinks.s: x"],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "topic"\ntopic = "o"\noptions = { nameServer = "localhost:1" }\n'
            '[sinks.t]\nfrom = "a"\nkind = "topic"\ntopic = "o"\noptions = { nameServer = "127.0.0.1:1" }\n'
            '[sinks.u]\nfrom = "a"\nkind = "topic"\ntopic = "o"\n'
            'options = { nameServer = "127.0.0.1:1", namespace = "n" }\n',
            ["16: sinks.t writes to the same place as sinks.s: o"],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "jdbc"\noptions = { url = "u" }\nmode = "complete"\ntopic = "t"\n',
            [
                "8: sinks.s: options.dbtable is missing",
                "12: sinks.s.mode: jdbc cannot complete, only append",
                "13: sinks.s: topic is for the kind topic, not jdbc",
            ],
        ),
        (
            SINK + 'id_columns = ["x", "x"]\npartition_by = ["y"]\npath = "/p"\n',
            [
                "11: sinks.s.id_columns: only rows of a topic have ids",
                "11: sinks.s.id_columns: x is named twice",
                "12: sinks.s.partition_by: console has no partitions of files",
                "13: sinks.s: path is for files and delta, not console",
            ],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "topic"\n',
            [
                "8: sinks.s: options.nameServer is missing: host:port of the name servers",
                "8: sinks.s: topic is missing; where rows name their topics themselves, option topics must list "
                "those there may be: what was written to others could not be read back",
            ],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "topic"\ntopic = "a b"\n[sinks.s.options]\nnameServer = "h:1"\n',
            [
                "11: sinks.s: option topic is 'a b': expected the name of a topic (The specified topic: a b, "
                "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$)"
            ],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "parquet"\npath = "/x"\npartition_by = [".x"]\n',
            ["12: sinks.s.partition_by: folders whose names begin with a dot are hidden"],
        ),
        (
            TABLE + SINK.replace('"a"', '"k"'),
            [
                "13: sinks.s: k is a table in a pipeline of streams; a pipeline without streams can write it",
            ],
        ),
        (
            TABLE
            + '[sources.k.decode]\nformat = "json"\nschema = "x INT"\n[quality.k.rules]\nr = "true"\n'
            + '[dead_letters]\nkind = "json"\npath = "/d"\n'
            + SINK,
            [
                f"12: the rule malformed of k: {TABLE_RULES}",
                f"15: quality.k: {TABLE_RULES}",
            ],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "topic"\ntopic = "%RETRY%g"\noptions = { nameServer = "h:1" }\n',
            ["11: sinks.s: topic %RETRY%g cannot be written once: brokers pass its messages on"],
        ),
        (
            '[sinks.s]\nfrom = "a"\nkind = "topic"\n[sinks.s.options]\nnameServer = "h:1"\ntopics = "u,%RETRY%g"\n',
            ["8: sinks.s: topic %RETRY%g cannot be written once: brokers pass its messages on"],
        ),
        (
            SINK + '[dead_letters]\noptions = { nameServer = "h:1", topics = "x,y" }\n',
            ["11: dead_letters: topic is missing: where dead letters go"],
        ),
        (
            SINK + '[steps.p]\npython = "nowhere:f"\n[steps.q]\npython = "steps.f"\nfrom = "a"\n',
            [
                "11: steps.p: a python step needs from: the views its function is given",
                "12: steps.p.python: there is no module nowhere",
                "14: steps.q.python: 'steps.f': expected module:function",
            ],
        ),
        (
            SINK + '[steps.p]\nsql_file = "x.sql"\n[steps.q]\nsql = "FROM a"\noptions = { x = 1 }\n',
            [
                "12: steps.p.sql_file: cannot read x.sql: No such file or directory",
                "15: steps.q.options: are for python steps",
            ],
        ),
        (
            SINK + '[steps.p]\nsql = "FROM a"\nwatermark = { column = "value.at", dely = "1 minute" }\n',
            [
                "13: steps.p.watermark.column: 'value.at': expected a column of the view; "
                "let a step name the field of a struct",
                "13: steps.p.watermark: delay is missing: how late a row may come",
                "13: unknown key dely in [steps.p.watermark]; did you mean delay?",
            ],
        ),
        (
            SINK + '[dead_letters]\nkind = "console"\n',
            ["12: dead_letters.kind: expected topic, parquet, json"],
        ),
        (
            '[sinks.dead_letters]\nfrom = "a"\nkind = "console"\n',
            ["8: sinks.dead_letters: this name belongs to [dead_letters]; give the sink another one"],
        ),
        (
            SINK + "[quality.a]\n[sources.b]\nformat = 3\n",
            [
                "11: quality.a: rows that fail have nowhere to go: add [dead_letters], or set action to fail or count",
                "11: quality.a: there are no rules: [quality.NAME.rules] holds them, name = SQL expression",
                "13: sources.b.format: 3: expected a text",
            ],
        ),
    ],
)
def test_contradictions(part: str, expected: list[str]) -> None:
    assert problems(with_part(part)) == expected


def test_a_pipeline_without_streams() -> None:
    text = (
        '[pipeline]\nname = "p"\n[sources.a]\nformat = "parquet"\npath = "/x"\n'
        'watermark = { column = "at", delay = "1h" }\n'
        '[sinks.s]\nfrom = "a"\nkind = "console"\nmode = "complete"\n'
    )
    assert problems(text) == [
        "6: sources.a.watermark: there is no stream in this pipeline",
        "10: sinks.s.mode: without a stream there is only append",
    ]
    assert not parse(
        "\n".join(line for line in text.splitlines() if "mode" not in line and "water" not in line)
    ).is_streaming


def test_streams_of_files_need_a_schema() -> None:
    text = '[pipeline]\nname = "p"\n[sources.a]\nformat = "json"\nstream = true\npath = "/x"\n' + SINK
    assert problems(text) == ["3: sources.a: a stream of files needs a schema"]
    assert parse(text.replace("stream =", 'schema = "x INT"\nstream =')).sources["a"].schema == "x INT"


def test_files_for_executors_are_there() -> None:
    text = with_part(SINK).replace('name = "p"', 'name = "p"\npy_files = ["a.zip", "b.py"]')
    assert problems(text, {"a.zip": b""}) == ["3: pipeline.py_files: there is no file b.py"]
    assert parse(text, {"a.zip": b"", "b.py": b""}).py_files == ("/folder/a.zip", "/folder/b.py")


def test_options_of_our_formats_are_checked_each_with_its_line() -> None:
    part = """\
startingOfsets = "earliest"
maxOffsetsPerTrigger = "many"
endingOffsets = "latest"
[sinks.s]
from = "a"
kind = "topic"
topic = "out"
[sinks.s.options]
nameServer = "h:1"
batchMessages = 0
compresion = "lz4"
"""
    assert problems(with_part(part)) == [
        "8: sources.a.options: unknown option startingOfsets; did you mean startingOffsets?",
        "9: sources.a.options: option maxOffsetsPerTrigger is 'many': "
        "expected a whole number from 1 to 9223372036854775807",
        "10: sources.a.options: option endingOffsets is for batches (spark.read): a stream has no end",
        "17: sinks.s.options: option batchMessages is '0': expected a whole number from 1 to 10000",
        "18: sinks.s.options: unknown option compresion; did you mean compression?",
    ]


def test_what_is_missing_hides_nothing() -> None:
    options = '{ nameServer = "h:1", subscrbe = "t", startingOffsets = "sometime", maxOfsetsPerTrigger = 5 }'
    text = f'[pipeline]\nname = "p"\n[sources.a]\nformat = "rocketmq"\noptions = {options}\n'
    sink = '[sinks.s]\nfrom = "a"\nkind = "topic"\ntopic = "o"\noptions = { nameServer = "", compresion = "lz4" }\n'
    found = [problem.partition("options: ")[2].partition(": expected")[0] for problem in problems(text + sink)]
    assert found == [
        "option startingOffsets is 'sometime'",
        "unknown option maxOfsetsPerTrigger; did you mean maxOffsetsPerTrigger?",
        "unknown option subscrbe; did you mean subscribe?",
        "what to read is missing: give exactly one of the options subscribe, subscribePattern, assign",
        "option nameServer is missing: the address of a name server, such as 127.0.0.1:9876",
        "unknown option compresion; did you mean compression?",
    ]


@pytest.mark.parametrize(("delay", "is_good"), [("30 seconds", True), ("30", False), ("0", False), ("soon", False)])
def test_delays_of_watermarks_have_a_unit(delay: str, is_good: bool) -> None:
    text = with_part(SINK + f'[steps.p]\nsql = "FROM a"\nwatermark = {{ column = "at", delay = "{delay}" }}\n')
    if is_good:
        assert parse(text).steps["p"].watermark == Watermark("at", "30000 milliseconds")
        return
    assert problems(text) == [
        f"13: steps.p.watermark.delay: '{delay}': expected a duration such as 500ms, 30 seconds, 15m, 2h or 1d"
    ]


def test_a_view_has_one_rule_of_a_name() -> None:
    one = SINK + '[quality.one]\nview = "a"\naction = "count"\nrules = { cheap = "x < 9", Cheap = "x < 8" }\n'
    two = '[quality.two]\nview = "A"\naction = "fail"\n[quality.two.rules]\ncheap = "x < 7"\nmalformed = "x IS NULL"\n'
    taken = "quality.two.rules.cheap: a has a rule of this name: quality.one.rules.cheap; give it another one"
    assert problems(with_part(one + two)) == [f"19: {taken}"]
    decode = '[sources.a.decode]\nformat = "json"\nschema = "x INT"\nmalformed = "{}"\n'
    assert problems(with_part(one + two + decode.format("keep"))) == [f"19: {taken}"]
    assert problems(with_part(one + two + decode.format("fail"))) == [
        f"19: {taken}",
        "20: quality.two.rules.malformed: a has a rule of this name: sources.a.decode; give it another one",
    ]


def test_options_of_the_console() -> None:
    assert problems(with_part(SINK + 'options = { rows = "many", foo = 1 }\n')) == [
        "11: sinks.s.options: option rows is 'many': expected a whole number from 1 to 1000",
        "11: sinks.s.options: unknown option foo",
    ]
