"""The Python of workers on this machine: this one, with PySpark from where it is installed.

Spark puts its zips of sources first in the path of every Python it starts. There is no bytecode in them: each process,
and every stream is planned by a new one, would compile two hundred modules, which takes longer than all else it does.
Nor need it start a thread for every core: numpy does so when it is imported, and a task has one core.
"""

from __future__ import annotations

import os
import shlex
import site
import sys
from importlib import import_module
from pathlib import Path

from apogeemq.spark.runtime.scripts import cache_folder, folder_with_script


def worker_python(cache: Path | None = None) -> str:
    """What PYSPARK_PYTHON must be: this Python, or a script that starts it without the zips and without threads that
    nobody needs, unless OPENBLAS_NUM_THREADS or OMP_NUM_THREADS says how many there must be."""
    if not _is_installed():
        return sys.executable
    script = f"""#!/bin/sh
# The installed PySpark has bytecode; the zips of its sources, which Spark puts first, have none.
for package in pyspark py4j; do
    case ${{PYTHONPATH%%:*}} in
        */python/lib/$package*.zip) PYTHONPATH=${{PYTHONPATH#*:}} ;;
    esac
done
# For whoever computes with numpy: a task has one core.
: "${{OPENBLAS_NUM_THREADS=${{OMP_NUM_THREADS:-1}}}}"
export OPENBLAS_NUM_THREADS
exec {shlex.quote(sys.executable)} "$@"
"""
    found = folder_with_script(cache or cache_folder(), "python", script) / "python"
    return str(found) if os.access(found, os.X_OK) else sys.executable  # not where nothing may be executed


def _is_installed() -> bool:
    """Whether any process of this Python finds PySpark, and Spark is the one that came with it."""
    folders = {*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])}
    homes = [Path(import_module(name).__file__ or "").parent for name in ("pyspark", "py4j")]
    is_own_spark = os.environ.get("SPARK_HOME") in (None, "", str(homes[0]))
    return is_own_spark and all(str(home.parent) in folders for home in homes)
