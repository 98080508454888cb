"""The benchmarks load the servers with what real peers send."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import made_up
from tests.golden import files
from tests.golden.capture import frames_path
from tests.golden.steps import V5
from tests.golden.wire import Frame

CLUSTER = made_up.Cluster(brokers=1, topics=2)


def _golden(group: str, name: str) -> Frame:
    frame = files.read(frames_path(V5, group))[name]
    assert frame is not None
    return frame


def _keys(frame: Frame) -> tuple[list[str], list[str]]:
    header = frame.fields()
    return list(header), sorted(header["extFields"])


def _shape(value: Any) -> Any:
    """Keys in their order; of a table of topics, the shape of one."""
    if not isinstance(value, dict):
        return type(value).__name__
    if "topicConfigTable" in value:
        return {key: _shape(item) for key, item in value.items()} | {
            "topicConfigTable": _shape(next(iter(value["topicConfigTable"].values())))
        }
    return {key: _shape(item) for key, item in value.items()}


def test_a_registration_has_the_form_of_a_real_brokers() -> None:
    made, real = Frame.decode(made_up.register_frame(CLUSTER, 0)), _golden("broker", "register")
    assert _keys(made) == _keys(real)
    assert json.dumps(_shape(json.loads(made.body))) == json.dumps(_shape(json.loads(real.body)))


def test_a_route_query_has_the_form_of_a_real_clients() -> None:
    made = Frame.decode(made_up.route_frames(CLUSTER, 1)[0])
    real = _golden("requests", "route, standard JSON only, odd text, JSON")
    assert _keys(made) == _keys(real)
    assert made.fields()["version"] == real.fields()["version"]
