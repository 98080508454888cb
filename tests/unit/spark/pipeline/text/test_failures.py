"""The reason within what Java, Py4J and Spark say."""

from __future__ import annotations

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.text.failures import MAX_LENGTH, failure_text, reason_within

PROXY = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised by the Python Proxy. \
Return Message: Traceback (most recent call last):
  File "/x/py4j/clientserver.py", line 642, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
{last}

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
py4j.Py4JException: An exception was raised by the Python Proxy. SQLSTATE: XXKST
"""

JAVA = """\
An error occurred while calling o113.save.
: {first}
\tat org.apache.derby.impl.jdbc.Util.generateCsSQLException(Util.java:230)
Caused by: ERROR XJ004: Database 'absent' not found.
\t... 57 more
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            JAVA.format(first="java.sql.SQLException: Database 'absent' not found."),
            "SQLException: Database 'absent' not found.",
        ),
        (JAVA.format(first="java.lang.NullPointerException"), "NullPointerException"),
        (
            PROXY.format(last=f"py4j.protocol.Py4JJavaError: {JAVA.format(first='java.io.IOException: no space')}"),
            "IOException: no space",
        ),
        (
            JAVA.format(
                first="org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 "
                "times, most recent failure: Lost task 0.3 in stage 7.0 (TID 9) (127.0.0.1 executor driver): "
                "java.sql.BatchUpdateException: there is such a row"
            ),
            "BatchUpdateException: there is such a row",
        ),
        (PROXY.format(last="apogeemq.errors.DataLost: offsets 3 to 7 are gone"), "offsets 3 to 7 are gone"),
        (PROXY.format(last="ValueError: not a number"), "ValueError: not a number"),
        (
            PROXY.format(last="pyspark.errors.exceptions.captured.AnalysisException: no column x"),
            "AnalysisException: no column x",
        ),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: the disk is full SQLSTATE: XXKST\nmore",
            "the disk is full",
        ),
        (
            "Job aborted\norg.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] a row breaks the rule r "
            "SQLSTATE: P0001",
            "a row breaks the rule r",
        ),
        ("one line", "one line"),
    ],
)
def test_reasons(text: str, reason: str) -> None:
    assert reason_within(text) == reason


def test_our_own_errors_are_said_as_they_are() -> None:
    assert failure_text(ConfigError("a\nb")) == "a\nb"
    assert failure_text(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert len(failure_text(ValueError("x" * 10_000))) == MAX_LENGTH
