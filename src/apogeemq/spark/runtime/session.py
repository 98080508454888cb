"""Spark started from Python, quietly: by default inside this machine, bound to 127.0.0.1, its logs in a file."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apogeemq.spark import FILTER_PUSH_DOWN, register, require_extra
from apogeemq.spark.runtime.java import find_java
from apogeemq.spark.runtime.py_files import write_dependencies, write_package
from apogeemq.spark.runtime.python import worker_python

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
LOG_NAME: Final = "spark.log"
ERRORS_NAME: Final = "spark-errors.log"
"""What the JVM and Python workers print to standard error: next to nothing, unless something is wrong."""

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit`, which has started the JVM."""
_LOG_FOLDER: Final = "spark.apogeemq.logFolder"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_EXECUTORS_JAVA_OPTIONS: Final = "spark.executor.extraJavaOptions"
ARROW_OPTIONS: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Arrow's Java library checks every single access otherwise, of rows whose number Spark knows."""

_MAX_SOCKET_FOLDER: Final = 50
"""A socket's path has at most 107 bytes, and Spark gives it a long name."""

_LOG_SETTINGS: Final = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 16MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
# Says at every start that the machine's native Hadoop library is missing, which nobody needs.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def embedded_session(
    app_name: str,
    master: str = "local[*]",
    *,
    settings: Mapping[str, str] | None = None,
    log_folder: Path | None = None,
    log_level: str = "warn",
    shows_ui: bool = False,
    ships_dependencies: bool = False,
) -> SparkSession:
    """A session that knows the connector; where this process has one already, that one.

    `settings` are Spark's own and win over what is set here. Logs go to `log_folder` (a temporary one when not given,
    see `log_folder_of`). With a master that is not local, the package is sent to the executors; what it needs that is
    compiled as well with `ships_dependencies`, for executors of this platform and version of Python (`py_files.py`).
    A program started by `spark-submit` has its master, its logs and its files from there; only `settings` count.
    Raises ConfigError when pyspark or Java is missing.
    """
    require_extra()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _keep_quiet()
    with SparkContext._lock:
        if SparkContext._active_spark_context is None and _SUBMITTED not in os.environ:
            folder = (log_folder or Path(tempfile.mkdtemp(prefix="apogeemq-spark-"))).absolute()
            own = _settings(app_name, master, folder, log_level, shows_ui=shows_ui)
            wanted = {**own, **(settings or {})}
            wanted[_JAVA_OPTIONS] = " ".join(dict.fromkeys((own[_JAVA_OPTIONS], wanted[_JAVA_OPTIONS])))
            context = _started(wanted, folder)
            if not is_local(wanted["spark.master"]):
                _ship(context, folder, with_dependencies=ships_dependencies)
    spark = SparkSession.builder.appName(app_name).config(map=dict(settings or {})).getOrCreate()
    if not is_local(spark.sparkContext.master or ""):
        _show_planners_what_was_sent(spark.sparkContext)
    register(spark)
    return spark


def _keep_quiet() -> None:
    """PySpark prints where in a query an error was, with Java's whole stack, beside raising it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def log_folder_of(spark: SparkSession) -> Path | None:
    """Where the logs of a session from `embedded_session` are."""
    found = spark.sparkContext.getConf().get(_LOG_FOLDER)
    return Path(found) if found else None


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver."""
    return master == "local" or master.startswith("local[")


def _settings(app_name: str, master: str, folder: Path, log_level: str, *, shows_ui: bool) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS.format(path=folder / LOG_NAME, level=log_level))
    found = {
        "spark.master": master,
        "spark.app.name": app_name,
        "spark.ui.enabled": str(shows_ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        # For plans that a thread makes which knows no session; `register` sets it for the session alone.
        FILTER_PUSH_DOWN: "true",
        _JAVA_OPTIONS: f'"-Dlog4j2.configurationFile={log_settings.as_uri()}" {ARROW_OPTIONS}',
        _EXECUTORS_JAVA_OPTIONS: ARROW_OPTIONS,
        _LOG_FOLDER: str(folder),
    }
    if is_local(master):
        found |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK, **worker_sockets()}
    return found


def worker_sockets() -> dict[str, str]:
    """Between the JVM and Python workers on one machine: sockets that have a path instead of a port move the same bytes
    with less work."""
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > _MAX_SOCKET_FOLDER:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def _started(settings: Mapping[str, str], folder: Path) -> SparkContext:
    """Makes the process's SparkContext. Its JVM is started here, and not by Spark, to give it a standard error."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    os.environ["JAVA_HOME"] = str(find_java().home)
    if is_local(settings["spark.master"]):
        # The same Python, with the same packages, and no question to the network about this machine's name.
        os.environ["PYSPARK_PYTHON"] = worker_python()
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = SparkContext._gateway
    if gateway is None:  # else a JVM is left of an earlier session, and the only one a process can have
        with (folder / ERRORS_NAME).open("ab") as errors:
            gateway = launch_gateway(conf, {"stderr": errors})  # type: ignore[no-untyped-call]
    with _own_interrupts():
        return SparkContext(conf=conf, gateway=gateway)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Spark puts its own answer to Ctrl-C in place, which talks to a Java that may be busy; a program that has one
    keeps it."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before not in (None, signal.default_int_handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _ship(context: SparkContext, folder: Path, *, with_dependencies: bool) -> None:
    """Before the connector is registered: what is registered knows the files that were there by then."""
    context.addPyFile(str(write_package(folder / "apogeemq.zip")))
    if with_dependencies:
        for path in write_dependencies(folder / "dependencies"):
            context.addArchive(f"{path}#{path.stem}")


def _show_planners_what_was_sent(context: SparkContext) -> None:
    """Streams are planned in Python processes beside the driver, of the executors' Python, to which Spark does not tell
    what it has sent to the executors; it is in the driver's folder of such files, too."""
    from pyspark import SparkFiles

    folder = SparkFiles.getRootDirectory()
    sent = (folder, *(os.path.join(folder, name) for name in context._python_includes or ()))
    known = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, dict.fromkeys((*known, *sent))))
