"""A broker started by its commands: one process from the shell's point of view."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.cli.test_start import line_of, started, stop

BOOT_LINE = re.compile(r"^The broker\[(\S+), (\S+):(\d+)\] boot success\. serializeType=JSON( and name server is .*)?$")


def test_the_command_becomes_the_broker(tmp_path: Path) -> None:
    data = tmp_path / "data"
    args = ("broker", "--bind", "127.0.0.1", "--port", "0", "--data", str(data), "--name", "b1")
    with started("main", *args, "--log-level", "warning", home=tmp_path) as process:
        boot = BOOT_LINE.match(line_of(process))
        assert boot is not None
        assert (boot[1], boot[2], boot[4]) == ("b1", "127.0.0.1", None)
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        assert b"apogeemq.broker" in command
        assert stop(process) == ""
    assert (data / "logs" / "broker.log").exists()
    assert (data / "commitlog").exists()
    assert not (tmp_path / "store").exists()


def test_mqbroker_uses_apaches_folders_and_needs_no_name_server_to_start(tmp_path: Path) -> None:
    config_file = tmp_path / "broker.conf"
    config_file.write_text("listenPort=0\nbindAddress=127.0.0.1\nbrokerIP1=10.0.0.9\n")
    with started("mqbroker", "-c", str(config_file), "-n", "127.0.0.1:1", home=tmp_path) as process:
        assert line_of(process) == f"load config properties file OK, {config_file}"
        boot = BOOT_LINE.match(line_of(process))
        assert boot is not None
        assert (boot[2], boot[4]) == ("10.0.0.9", " and name server is 127.0.0.1:1")
        errors = stop(process)
    assert "no name server has taken this broker yet" in errors
    assert (tmp_path / "logs" / "rocketmqlogs" / "broker.log").exists()
    assert (tmp_path / "store" / "commitlog").exists()


def test_a_person_is_told_of_an_address_that_nobody_elsewhere_reaches(tmp_path: Path) -> None:
    args = ("--bind", "127.0.0.1", "--port", "0", "--log-dir", "", "-n", "ns.invalid:9876")
    with started("main", "broker", *args, home=tmp_path) as process:
        assert BOOT_LINE.match(line_of(process))
        errors = stop(process)
    assert "clients are told to connect to 127.0.0.1:" in errors
    assert "which other machines cannot reach, but the name servers are elsewhere (ns.invalid)" in errors


def test_a_start_that_fails_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    with started("mqbroker", home=tmp_path) as process:
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (1, "")
    assert errors.splitlines()[-1].startswith("mqbroker: ")
    assert "Traceback" not in errors
