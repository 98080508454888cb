"""What went wrong, in a sentence: the reason within the layers that Java, Py4J and Spark put around it. Pure."""

from __future__ import annotations

import re
from typing import Final

from apogeemq.errors import ApogeeError

MAX_LENGTH: Final = 2000

_OURS: Final = re.compile(r"^\s*apogeemq\.errors\.\w+: (.+)$", re.MULTILINE)
# The last line of a traceback: the name of an exception at the beginning of a line, without a folder of Java before it.
_PYTHON: Final = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Warning)): (.+)$", re.MULTILINE)
# What Py4J says of an exception of Java's: its own line first, then Java's name and message.
_JAVA: Final = re.compile(r"An error occurred while calling [\w.]+\n: ((?:[\w$]+\.)*[\w$]+)(?:: (.+))?$", re.MULTILINE)
# What Spark puts before the failure of a task.
_TASK: Final = re.compile(r"^Job aborted due to stage failure: .*?\(TID \d+\) \([^)]*\): ((?:[\w$]+\.)*)")
_RULE: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE.*)?$", re.MULTILINE)
_STREAM_FAILED: Final = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")


def failure_text(error: BaseException) -> str:
    """Our own sentence when there is one in it, else that of the Python or Java exception, else its first line."""
    if isinstance(error, ApogeeError):
        return str(error)
    return shortened(reason_within(str(error)) or type(error).__name__)


def reason_within(text: str) -> str:
    for pattern in (_OURS, _RULE):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    if "Traceback (most recent call last)" in text:
        python = [match for match in _PYTHON.finditer(text) if not match[1].startswith(("py4j.", "org.", "java."))]
        if python:
            return f"{python[-1][1].rpartition('.')[2]}: {python[-1][2].strip()}"
    java = _JAVA.search(text)
    if java is not None:
        return _java_reason(java[1].rpartition(".")[2], java[2] or "")
    first = _STREAM_FAILED.sub("", text.strip().partition("\n")[0])
    return first.partition(" SQLSTATE:")[0].strip()


def _java_reason(name: str, message: str) -> str:
    message = message.partition(" SQLSTATE:")[0].strip()
    if _TASK.match(message):
        return _TASK.sub("", message)
    return f"{name}: {message}" if message else name


def shortened(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"
