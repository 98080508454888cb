"""`mqbroker`: Apache's flags and exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.runtime.config import parse_properties
from tests.unit.cli.commands import run


def test_help(tmp_path: Path) -> None:
    ended = run("mqbroker", "-h", home=tmp_path)
    assert ended.returncode == 0
    for flags in (
        *("-c, --configFile", "-n, --namesrvAddr", "-p, --printConfigItem", "-m, --printImportantConfig"),
        "-h, --help",
    ):
        assert flags in ended.stdout


@pytest.mark.parametrize("flag", ["-p", "--printConfigItem", "-m", "--printImportantConfig"])
def test_print(tmp_path: Path, flag: str) -> None:
    config_file = tmp_path / "broker.conf"
    config_file.write_text("brokerName=b7\nbrokerRole=SYNC_MASTER\n")
    ended = run("mqbroker", "-c", str(config_file), "-n", "10.0.0.1:9876", flag, home=tmp_path)
    assert ended.returncode == 0
    first, *lines = ended.stdout.splitlines()
    assert first == f"load config properties file OK, {config_file}"
    items = parse_properties("\n".join(lines))
    assert (items["brokerName"], items["brokerRole"], items["namesrvAddr"]) == ("b7", "SYNC_MASTER", "10.0.0.1:9876")


@pytest.mark.parametrize("args", [("-z",), ("--port", "0"), ("extra",)])
def test_bad_option_is_usage_on_stderr_and_status_1(tmp_path: Path, args: tuple[str, ...]) -> None:
    ended = run("mqbroker", *args, home=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Usage: mqbroker")
    assert ended.stdout == ""


def test_bad_file_is_javas_minus_one(tmp_path: Path) -> None:
    ended = run("mqbroker", "-c", "/nowhere", home=tmp_path)
    assert ended.returncode == 255
    assert ended.stderr == "mqbroker: cannot read the config file /nowhere: No such file or directory\n"


def test_a_slave_is_refused(tmp_path: Path) -> None:
    config_file = tmp_path / "broker.conf"
    config_file.write_text("brokerRole=SLAVE\nbrokerId=1\n")
    ended = run("mqbroker", "-c", str(config_file), home=tmp_path)
    assert ended.returncode == 255
    assert ended.stderr.startswith("mqbroker: brokerRole=SLAVE: this broker cannot be a slave yet")
