"""What decoding needs of Maven. What it does with bodies is tested with Spark."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.decoding import needed_packages
from apogeemq.spark.pipeline.spec import BodyFormat, Decode, PipelineSpec, Source


def pipeline(*forms: BodyFormat, packages: tuple[str, ...] = (), jars: str = "") -> PipelineSpec:
    sources = {
        f"s{number}": Source(
            name=f"s{number}", format="rocketmq", is_stream=True, decode=Decode(format=form, schema="x")
        )
        for number, form in enumerate(forms)
    }
    conf = {"spark.jars": jars} if jars else {}
    return PipelineSpec(name="p", sources=sources, sinks={}, packages=packages, spark_conf=conf)


AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"
PROTOBUF = "org.apache.spark:spark-protobuf_2.13:4.2.0"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (pipeline(BodyFormat.JSON), []),
        (pipeline(BodyFormat.AVRO, BodyFormat.AVRO, BodyFormat.PROTOBUF), [AVRO, PROTOBUF]),
        (pipeline(BodyFormat.AVRO, packages=("g:delta:1",)), ["g:delta:1", AVRO]),
        (pipeline(BodyFormat.AVRO, packages=("my.own:spark-avro_2.13:9",)), ["my.own:spark-avro_2.13:9"]),
        (pipeline(BodyFormat.AVRO, BodyFormat.PROTOBUF, jars="/jars/spark-avro_2.13-4.2.0.jar"), [PROTOBUF]),
    ],
)
def test_needed_packages(spec: PipelineSpec, expected: list[str]) -> None:
    assert needed_packages(spec, "4.2.0") == expected
