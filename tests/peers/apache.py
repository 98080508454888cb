"""Real Apache RocketMQ: its name server, its broker, its `mqadmin`, and Java programs that use its client.

The jars are resolved by Maven, once, into `$APOGEE_CACHE` (default ~/.cache/apogeemq), so that the tree holds none
and whatever index the machine's Maven is configured for is used.
"""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from tests.peers.netns import NetNamespace
from tests.peers.process import Process, free_port

V5 = "5.5.0"
V4 = "4.9.7"
VERSIONS = (V5, V4)

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""For functional tests: less work at start. Never for benchmarks."""

_JAVA_SOURCES = Path(__file__).parent / "java"
_ARTIFACTS = ("namesrv", "broker", "client", "tools")
_JAVA_FLAGS = (
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util", "java.util.concurrent")
    ),
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-Djava.net.preferIPv4Stack=true",
)

# One file for both lines: 5.x reads it from the system property (its shaded logback maps the class names),
# 4.9 from conf/ in its home folder. The listener keeps logback's own status messages off stdout.
_LOGBACK = """\
<configuration>
  <statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>${user.home}/rocketmq.log</file>
    <encoder><pattern>%d %p %t %logger - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""


class PeersUnavailable(Exception):
    """Apache RocketMQ cannot be had on this machine; the message is one sentence that says why."""


def resolve(version: str) -> Path:
    """The folder with the jars of `version`, resolved by Maven on first use. PeersUnavailable if that cannot be."""
    artifacts = [f"org.apache.rocketmq:rocketmq-{artifact}:{version}" for artifact in _ARTIFACTS]
    return resolve_jars(f"Apache RocketMQ {version}", version, artifacts)


def resolve_jars(what: str, folder: str, artifacts: Sequence[str], *, alone: bool = False) -> Path:
    """The same for any artifacts (`group:name:version`), under `folder` of the cache. `alone`: without what they depend
    on."""
    if problem := _java_problem():
        raise PeersUnavailable(f"{what} needs a JDK of version 17 or newer, and {problem}")
    cache = cache_folder() / "peers" / folder
    library, done = cache / "lib", cache / "done"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test runs share the cache
        if not done.exists():
            _resolve_with_maven(what, artifacts, cache, library, alone=alone)
            done.touch()
    return library


def cache_folder() -> Path:
    return Path(os.environ.get("APOGEE_CACHE") or Path.home() / ".cache" / "apogeemq")


@functools.cache
def _java_problem() -> str | None:
    for command in ("java", "javac"):
        if shutil.which(command) is None:
            return f"there is no `{command}` here"
    shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', shown)
    if version is None or int(version[1]) < 17:
        return f"`java` here is {shown.strip().splitlines()[0] if shown.strip() else 'unusable'}"
    return None


def _resolve_with_maven(what: str, artifacts: Sequence[str], cache: Path, library: Path, *, alone: bool) -> None:
    if shutil.which("mvn") is None:
        raise PeersUnavailable(f"{what} is resolved by Maven, and there is no `mvn` here")
    everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    exclusions = f"<exclusions>{everything}</exclusions>" if alone else ""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{exclusions}</dependency>"
        for group, name, version in (artifact.split(":") for artifact in artifacts)
    )
    (cache / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>apogeemq</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )
    shutil.rmtree(library, ignore_errors=True)  # what an interrupted run left
    maven = subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={library}"],
        cwd=cache,
        capture_output=True,
        text=True,
        check=False,
    )
    if maven.returncode:
        errors = [line for line in maven.stdout.splitlines() if "ERROR" in line] or [maven.stderr.strip()]
        raise PeersUnavailable(f"Maven could not resolve {what}: {errors[0][:500]}")


def java_command(
    version: str,
    work_dir: Path,
    main: Sequence[str],
    *,
    heap: str,
    jvm_args: Sequence[str] = (),
) -> list[str]:
    """The command line for `main` (a class, or a source file, with its arguments), all its files under `work_dir`."""
    library = resolve(version)
    home, temporary = work_dir / "home", work_dir / "tmp"
    (home / "conf").mkdir(parents=True, exist_ok=True)
    temporary.mkdir(exist_ok=True)
    logback = home / "conf" / "logback.xml"
    for name in ("logback.xml", "logback_namesrv.xml", "logback_broker.xml", "logback_tools.xml"):
        (home / "conf" / name).write_text(_LOGBACK)
    return [
        "java",
        f"-Xmx{heap}",
        *_JAVA_FLAGS,
        *jvm_args,
        f"-Drocketmq.home.dir={home}",
        f"-Duser.home={work_dir}",
        f"-Djava.io.tmpdir={temporary}",
        f"-Drmq.logback.configurationFile={logback}",
        "-Drocketmq.client.logUseSlf4j=true",
        f"-Dlogback.configurationFile={logback}",
        "-cp",
        f"{library}/*",
        *main,
    ]


def _write_properties(path: Path, properties: Mapping[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


class NameServer(Process):
    """Apache's name server on 127.0.0.1 (4.9 listens on all addresses: give it a namespace)."""

    def __init__(
        self,
        version: str,
        *,
        work_dir: Path,
        port: int = 0,
        heap: str = "256m",
        properties: Mapping[str, object] | None = None,
        netns: NetNamespace | None = None,
        jvm_args: Sequence[str] = (),
    ) -> None:
        assert netns or version != V4, "4.9 ignores bindAddress: run it in a network namespace"
        self.port = port or (netns.free_port() if netns else free_port())
        config = _write_properties(
            work_dir / "namesrv.conf",
            {"bindAddress": "127.0.0.1", "listenPort": self.port, **(properties or {})},
        )
        main = ["org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(config)]
        super().__init__(
            java_command(version, work_dir, main, heap=heap, jvm_args=jvm_args),
            name="namesrv",
            work_dir=work_dir,
            ready="boot success",
            netns=netns,
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class Broker(Process):
    """Apache's broker; uses the ports P-2, P and P+1. Its store is in `work_dir` and survives a restart."""

    def __init__(
        self,
        version: str,
        namesrv_addr: str,
        *,
        work_dir: Path,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        broker_id: int = 0,
        listen_port: int = 0,
        role: Literal["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"] | None = None,
        heap: str = "512m",
        properties: Mapping[str, object] | None = None,
        netns: NetNamespace | None = None,
        jvm_args: Sequence[str] = (),
    ) -> None:
        assert netns or version != V4, "4.9 ignores bindAddress: run it in a network namespace"
        self.port = listen_port or (netns.free_port() if netns else free_port(-2, 1))
        self.broker_name = name
        self.cluster = cluster
        config = _write_properties(
            work_dir / "broker.conf",
            {
                "namesrvAddr": namesrv_addr,
                "brokerName": name,
                "brokerClusterName": cluster,
                "brokerId": broker_id,
                "brokerRole": role or ("SLAVE" if broker_id else "ASYNC_MASTER"),
                "bindAddress": "127.0.0.1",
                "brokerIP1": "127.0.0.1",
                "brokerIP2": "127.0.0.1",
                "listenPort": self.port,
                "haListenPort": self.port + 1,
                "storePathRootDir": work_dir / "store",
                "storePathCommitLog": work_dir / "store" / "commitlog",
                "mappedFileSizeCommitLog": 16 << 20,
                "diskMaxUsedSpaceRatio": 99,  # the machine's disk is not the test's business
                "waitTimeMillsInSendQueue": 10_000,  # a busy machine must not refuse sends
                "registerNameServerPeriod": 10_000,  # the shortest it accepts
                **(properties or {}),
            },
        )
        main = ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)]
        super().__init__(
            java_command(version, work_dir, main, heap=heap, jvm_args=("-XX:MaxDirectMemorySize=512m", *jvm_args)),
            name=f"broker-{broker_id}",
            work_dir=work_dir,
            ready="boot success",
            netns=netns,
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class AdminShell(Process):
    """`mqadmin`, many commands in one warm JVM: starting Java for each would take longer than all the tests."""

    def __init__(
        self,
        version: str,
        *,
        work_dir: Path,
        netns: NetNamespace | None = None,
        jvm_args: Sequence[str] = (),
    ) -> None:
        main = [str(_JAVA_SOURCES / "AdminShell.java")]
        # Java 17 to 23 let a program veto System.exit only with this property.
        flags = (*QUICK_START, "-Djava.security.manager=allow", *jvm_args)
        super().__init__(
            java_command(version, work_dir, main, heap="256m", jvm_args=flags),
            name="mqadmin",
            work_dir=work_dir,
            ready="^@@ready",
            netns=netns,
        )
        self._count = 0

    def run(self, *args: str, timeout_s: float = 60.0) -> str:
        """What `mqadmin ARGS…` prints, standard output and standard error together."""
        self._count += 1
        self.say("\x1f".join((str(self._count), *args)))
        self.wait_for_output(f"^@@end {self._count}$", timeout_s=timeout_s)
        return self.output().split(f"@@begin {self._count}\n", 1)[1].split(f"\n@@end {self._count}\n", 1)[0]


def run_program(
    version: str,
    source: str,
    *args: str,
    work_dir: Path,
    heap: str = "256m",
    netns: NetNamespace | None = None,
    jvm_args: Sequence[str] = QUICK_START,
) -> Process:
    """A program of tests/peers/java (by file name) with Apache's jars of `version`; not yet started."""
    main = [str(_JAVA_SOURCES / source), *args]
    return Process(
        java_command(version, work_dir, main, heap=heap, jvm_args=jvm_args),
        name=Path(source).stem,
        work_dir=work_dir,
        netns=netns,
    )
