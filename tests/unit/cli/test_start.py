"""A name server started by its commands: one process from the shell's point of view."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BOOT_LINE = re.compile(r"^The Name Server boot success\. serializeType=JSON, address 127\.0\.0\.1:(\d+)$")


@contextmanager
def started(module: str, *args: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    """The command's process; killed at the end unless it has ended by itself."""
    command = [sys.executable, "-m", f"apogeemq.cli.{module}", *args]
    environment = {**os.environ, "HOME": str(home)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def stop(process: subprocess.Popen[str]) -> str:
    """SIGTERM; gives what it said on stderr."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    return errors


def test_the_command_becomes_the_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    args = ("namesrv", "--bind", "127.0.0.1", "--port", "0", "--data", str(data), "--log-level", "warning")
    with started("main", *args, home=tmp_path) as process:
        assert BOOT_LINE.match(line_of(process))
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        assert b"apogeemq.nameserver" in command
        assert stop(process) == ""
    assert (data / "logs" / "namesrv.log").exists()
    assert not (tmp_path / "namesrv").exists()


def test_mqnamesrv_uses_apaches_folders(tmp_path: Path) -> None:
    config_file = tmp_path / "namesrv.conf"
    config_file.write_text("listenPort=0\nbindAddress=127.0.0.1\ntls.server.keyPassword=hush\n")
    with started("mqnamesrv", "-c", str(config_file), home=tmp_path) as process:
        assert line_of(process) == f"load config properties file OK, {config_file}"
        assert BOOT_LINE.match(line_of(process))
        assert b"hush" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        errors = stop(process)
    log = (tmp_path / "logs" / "rocketmqlogs" / "namesrv.log").read_text()
    assert log == errors  # the file and the terminal say the same
    assert "serverWorkerThreads=8" in log  # the effective configuration
    assert "hush" not in log
    assert (tmp_path / "namesrv").is_dir()


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    flags = ("namesrv", "--bind", "127.0.0.1", "--log-dir", "", "--log-level", "error")
    with started("main", *flags, "--port", "0", "--data", str(tmp_path / "a"), home=tmp_path) as first:
        match = BOOT_LINE.match(line_of(first))
        assert match is not None
        with started("main", *flags, "--port", match[1], "--data", str(tmp_path / "b"), home=tmp_path) as second:
            output, errors = second.communicate(timeout=30)
        assert second.returncode != 0
        assert (output, errors) == (
            "",
            f"apogee namesrv: cannot listen on 127.0.0.1:{match[1]}: Address already in use\n",
        )
        assert stop(first) == ""


def test_a_module_in_the_current_folder_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('taken from the current folder')\n")
    script = (
        "import sys; sys.argv = ['apogee', 'namesrv', '--bind', '127.0.0.1', '--port', '0',"
        f" '--log-level', 'error', '--data', {str(tmp_path / 'data')!r}];"
        "from apogeemq.cli.main import main; main()"
    )
    command = [sys.executable, "-P", "-c", script]  # as the installed script runs: without the current folder
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert BOOT_LINE.match(line_of(process))
            assert stop(process) == ""
        finally:
            process.kill()
