"""Frames that Apache's peers send, from two sources.

`requests`   what Apache's own classes encode from fixed values (`java/Frames.java`), in both header codecs
`broker`     what a real broker sent to a real name server, between its start and its orderly end, with the first
             frame of each kind kept and what `MASKED` names made the same
"""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from pathlib import Path

from tests.golden import files, recorder
from tests.golden.steps import JAVA_4_9_7, JAVA_5_5_0, V4, V5
from tests.golden.wire import Frame
from tests.peers import apache
from tests.peers.netns import NetNamespace
from tests.peers.process import Process, free_port, wait_for

ROOT = Path(__file__).parent.parent.parent
SENT_VERSION = {V5: JAVA_5_5_0, V4: JAVA_4_9_7}
BROKER_CODES = {103: "register", 104: "unregister"}

ENVIRONMENT = {"PYTHONPATH": str(ROOT)}

MASKED = {
    "opaque": "counts all requests of the process: 0",
    "timestamp": "the time of the start: 1700000000000",
    "ports": "the test's: the broker's becomes 10911, its HA port 10912",
    "bodyCrc32": "computed again after the others",
}


def requests(version: str, work_dir: Path, _: NetNamespace | None) -> str:
    """Needs no network."""
    source = Path(__file__).parent / "java" / "Frames.java"
    main = [str(source), str(SENT_VERSION[version])]
    command = apache.java_command(version, work_dir, main, heap="256m", jvm_args=apache.QUICK_START)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: files.Frames = {}
    for line in done.stdout.splitlines():
        name, tab, data = line.partition("\t")
        if tab:
            found[name] = Frame.decode(bytes.fromhex(data))
    return files.dump((f"Apache RocketMQ {version}, its own classes", "made by tests/golden/java/Frames.java"), found)


def broker(version: str, work_dir: Path, netns: NetNamespace | None) -> str:
    """Start a name server and a broker with a recorder between them, and stop the broker again."""
    record = work_dir / "record"
    quick = apache.QUICK_START
    server = apache.NameServer(version, work_dir=work_dir / "namesrv", netns=netns, jvm_args=quick)
    port = netns.free_port() if netns else free_port()
    command = [sys.executable, "-m", "tests.golden.recorder", str(record), str(port), str(server.port)]
    relay = Process(command, name="recorder", work_dir=work_dir, env=ENVIRONMENT, ready=recorder.READY, netns=netns)
    peer = apache.Broker(version, f"127.0.0.1:{port}", work_dir=work_dir / "broker", netns=netns, jvm_args=quick)
    with server, relay, peer:
        wait_for(lambda: 103 in _first_frames(record), "the broker registers")
        peer.stop()
        wait_for(lambda: 104 in _first_frames(record), "the broker unregisters")
    first = _first_frames(record)
    found: files.Frames = {name: _masked(first[code], peer.port) for code, name in BROKER_CODES.items()}
    return files.dump((f"Apache RocketMQ {version}, broker", "recorded between it and a name server"), found)


def _first_frames(record: Path) -> dict[int, Frame]:
    """The first request of each code that the broker sent, of the lines that are complete."""
    first: dict[int, Frame] = {}
    for line in record.read_bytes().split(b"\n")[:-1]:
        if line.startswith(b"> "):
            frame = Frame.decode(bytes.fromhex(line[2:].decode()))
            first.setdefault(frame.fields()["code"], frame)
    return first


def _masked(frame: Frame, port: int) -> Frame:
    header, body = frame.header, frame.body
    header = re.sub(rb'"opaque":\d+', b'"opaque":0', header)
    body = re.sub(rb'"timestamp":\d{13}', b'"timestamp":1700000000000', body)
    for real, shown in ((port, 10911), (port + 1, 10912)):
        header = header.replace(b"127.0.0.1:%d" % real, b"127.0.0.1:%d" % shown)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    header = re.sub(rb'"bodyCrc32":"\d+"', b'"bodyCrc32":"%d"' % crc, header)
    return Frame(frame.codec, header, body)


GROUPS = {"requests": requests, "broker": broker}
