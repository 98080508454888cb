"""The session that programs get, and executors that have nothing installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from apogeemq.spark.pipeline import submit
from apogeemq.spark.runtime.py_files import as_archives, write_dependencies, write_package
from apogeemq.spark.runtime.python import worker_python
from apogeemq.spark.runtime.session import ERRORS_NAME, LOG_NAME, embedded_session, log_folder_of, worker_sockets
from tests.spark import shipped_program
from tests.spark.standalone import Standalone
from tests.spark.worlds import World

_QUIET = """
import sys
from pathlib import Path
from apogeemq.spark.runtime.session import embedded_session
spark = embedded_session("quiet", "local[1]", log_folder=Path(sys.argv[1]))
spark.sql("select 'from the console sink' as text").write.format("noop").mode("overwrite").save()
spark._jvm.org.apache.log4j.LogManager.getLogger("quiet").warn("for the log")
spark.sparkContext.parallelize([1], 1).foreach(lambda _: print("for the errors", file=sys.stderr))
print(spark.range(3).count())
"""


def test_there_is_one_session_and_it_is_closed_to_the_network(spark: SparkSession) -> None:
    assert embedded_session("another") is spark
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == worker_python()
    folder = log_folder_of(spark)
    assert folder is not None
    assert (folder / LOG_NAME).exists()


def test_workers_are_this_python_with_the_installed_pyspark(spark: SparkSession) -> None:
    def where(_: int) -> tuple[str, str]:
        return sys.executable, pyspark.__file__

    assert spark.sparkContext.parallelize([0], 1).map(where).first() == (sys.executable, pyspark.__file__)


def test_workers_are_talked_to_without_ports_where_a_path_is_short_enough(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def says(_: int) -> str:
        return os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower()

    assert spark.sparkContext.parallelize([0], 1).map(says).first() == ("true" if worker_sockets() else "")
    monkeypatch.setattr(tempfile, "tempdir", "/" + "long/" * 12)
    assert worker_sockets() == {}


@pytest.mark.timeout(600)
def test_a_machine_without_java_and_a_terminal_that_stays_the_programs_own(tmp_path: Path) -> None:
    """Spark's scripts want a few commands besides; those are all that is on the path."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("bash", "sh", "env", "dirname", "ps", "chmod", "rm", "uname", "head", "cat"):
        (commands / name).symlink_to(Path("/usr/bin", name).resolve())
    env = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PATH")}
    env |= {"PATH": str(commands), "APOGEE_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run([sys.executable, "-c", _QUIET, str(tmp_path)], capture_output=True, text=True, env=env)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("3\n", "", 0)
    assert list((tmp_path / "cache" / "java").glob("*/bin/java"))
    assert "for the log" in (tmp_path / LOG_NAME).read_text()
    assert "for the errors" in (tmp_path / ERRORS_NAME).read_text()


def make_bare_python(folder: Path) -> str:
    """An interpreter that has pyarrow and numpy, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("pyarrow", "numpy"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations
        installed = Path(next(iter(spec.submodule_search_locations)))
        for path in (installed, *installed.parent.glob(f"{name}.libs")):
            (packages / path.name).symlink_to(path)
    python = folder / "bin" / "python"
    missing = subprocess.run([python, "-c", "import msgspec"], capture_output=True, text=True)
    assert "No module named 'msgspec'" in missing.stderr
    return str(python)


@pytest.mark.timeout(600)
def test_executors_with_nothing_installed_are_sent_what_they_need(
    world: World, standalone: Standalone, tmp_path: Path
) -> None:
    topic = world.topic("shipped")
    world.fill(topic, [b"%d" % number for number in range(1_000)])
    env = {"PYSPARK_PYTHON": make_bare_python(tmp_path / "bare")}
    driver = standalone.driver("shipped", Path(shipped_program.__file__), (world.address, topic, str(tmp_path)), env)
    with driver:
        assert driver.wait(timeout_s=400) == 0, driver.tail()
    assert "sum 499500" in driver.output()
    standalone.wait_until_idle()


PIPELINE = """\
[pipeline]
name = "submitted"
checkpoint = "{folder}/checkpoint"
[params]
server = {{}}
[sources.numbers]
format = "rocketmq"
options = {{ nameServer = "${{server}}", subscribe = "{topic}", startingOffsets = "earliest" }}
[steps.counted]
sql = "SELECT cast(cast(body AS string) AS bigint) AS number FROM numbers"
[sinks.files]
from = "counted"
kind = "parquet"
path = "{folder}/out"
"""


@pytest.mark.timeout(600)
def test_a_pipeline_is_submitted_to_executors_with_nothing_installed(
    world: World, standalone: Standalone, spark: SparkSession, tmp_path: Path
) -> None:
    topic = world.topic("submitted")
    world.fill(topic, [b"%d" % number for number in range(1_000)])
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(folder=tmp_path, topic=topic))
    sent = [
        *("--py-files", str(write_package(tmp_path / "apogeemq.zip"))),
        *("--archives", as_archives(write_dependencies(tmp_path / "deps"))),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        *("--executor-memory", "512m", "--driver-memory", "512m"),
    ]
    args = [str(tmp_path / "pipeline.toml"), "--once", "--state", str(tmp_path / "states")]
    env = {"PYSPARK_PYTHON": make_bare_python(tmp_path / "bare")}
    for extra, status, text in ((["--param", f"server={world.address}"], 0, '"state":"finished"'), ([], 2, "server")):
        driver = standalone.submitted("submitted", sent, Path(submit.__file__), args + extra, env)
        with driver:
            assert driver.wait(timeout_s=400) == status, driver.tail()
        assert text in driver.output()
        standalone.wait_until_idle()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.number for row in rows) == list(range(1_000))
