"""Plain numbers as Prometheus text, read back with the client library's own parser."""

from __future__ import annotations

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from apogeemq.runtime.metrics import Family, HistogramFamily, Sample, render


def test_families_are_rendered_with_labels_and_help() -> None:
    content_type, text = render(
        [
            Family(
                "apogee_requests",
                "counter",
                "Requests served.",
                [Sample(3, {"code": "105"}), Sample(1, {"code": "x\n"})],
            ),
            Family("apogee_topics", "gauge", "Topics known.", [Sample(2.5)]),
            Family("apogee_empty", "gauge", "Nothing yet.", []),
        ]
    )
    assert content_type.startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    shown = families["apogee_requests"]
    assert shown.type == "counter"
    assert shown.documentation == "Requests served."
    assert {sample.labels["code"]: sample.value for sample in shown.samples} == {"105": 3, "x\n": 1}
    assert [sample.name for sample in shown.samples] == ["apogee_requests_total"] * 2
    assert families["apogee_topics"].samples[0].value == 2.5
    assert families["apogee_empty"].samples == []


def test_process_figures_are_included() -> None:
    _, text = render([])
    assert b"process_resident_memory_bytes" in text
    assert b"process_open_fds" in text


def test_prometheus_client_is_loaded_only_when_somebody_asks() -> None:
    code = "import sys, apogeemq.runtime.metrics; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_histogram_counts_up() -> None:
    family = HistogramFamily("apogee_put_seconds", "Time.", (0.001, 0.5), (3, 2, 1), 4.25)
    _, text = render([family])
    lines = [line for line in text.decode().splitlines() if line.startswith("apogee_put_seconds")]
    assert lines == [
        'apogee_put_seconds_bucket{le="0.001"} 3.0',
        'apogee_put_seconds_bucket{le="0.5"} 5.0',
        'apogee_put_seconds_bucket{le="+Inf"} 6.0',
        "apogee_put_seconds_count 6.0",
        "apogee_put_seconds_sum 4.25",
    ]
