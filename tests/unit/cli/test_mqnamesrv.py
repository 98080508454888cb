"""`mqnamesrv`: Apache's flags and exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.runtime.config import parse_properties
from tests.unit.cli.commands import run


def test_help(tmp_path: Path) -> None:
    ended = run("mqnamesrv", "-h", home=tmp_path)
    assert ended.returncode == 0
    for flags in ("-c, --configFile", "-n, --namesrvAddr", "-p, --printConfigItem", "-h, --help"):
        assert flags in ended.stdout


def test_print(tmp_path: Path) -> None:
    config_file = tmp_path / "namesrv.conf"
    config_file.write_text("listenPort=10876\n")
    ended = run("mqnamesrv", "--configFile", str(config_file), "--printConfigItem", home=tmp_path)
    assert ended.returncode == 0
    first, *lines = ended.stdout.splitlines()
    assert first == f"load config properties file OK, {config_file}"
    assert parse_properties("\n".join(lines))["listenPort"] == "10876"


@pytest.mark.parametrize("args", [("-z",), ("--port", "0"), ("extra",)])
def test_bad_option_is_usage_on_stderr_and_status_1(tmp_path: Path, args: tuple[str, ...]) -> None:
    ended = run("mqnamesrv", *args, home=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Usage: mqnamesrv")
    assert ended.stdout == ""


def test_option_without_its_value_is_status_1(tmp_path: Path) -> None:
    ended = run("mqnamesrv", "-c", home=tmp_path)
    assert ended.returncode == 1
    assert "'-c' requires an argument" in ended.stderr


def test_bad_file_is_javas_minus_one(tmp_path: Path) -> None:
    ended = run("mqnamesrv", "-c", "/nowhere", home=tmp_path)
    assert ended.returncode == 255
    assert ended.stderr == "mqnamesrv: cannot read the config file /nowhere: No such file or directory\n"
