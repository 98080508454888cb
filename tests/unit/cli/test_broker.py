"""`apogee broker`: flags, file, environment; what is printed and refused."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from unittest.mock import patch

import pytest

from apogeemq.broker.settings import settings_from_argument
from apogeemq.runtime.config import parse_properties
from tests.unit.cli.commands import run


def shown(*args: str, home: Path, env: dict[str, str] | None = None) -> dict[str, str]:
    ended = run("main", "broker", *args, "-p", home=home, env=env)
    assert (ended.returncode, ended.stderr) == (0, "")
    return parse_properties(ended.stdout)


def test_defaults(tmp_path: Path) -> None:
    items = shown(home=tmp_path)
    assert items["brokerName"] == socket.gethostname()
    assert items["storePathRootDir"] == str(tmp_path / "store")
    assert items["listenPort"] == "10911"
    assert items["namesrvAddr"] == ""


def test_flags(tmp_path: Path) -> None:
    items = shown(
        *("--bind", "127.0.0.1", "--port", "20911", "--data", str(tmp_path / "d"), "--name", "b1"),
        *("--advertise", "broker.example.org:1", "--http-port", "0", "-n", "a:1;b:2"),
        home=tmp_path,
    )
    expected = {
        "bindAddress": "127.0.0.1",
        "listenPort": "20911",
        "haListenPort": "20912",
        "storePathRootDir": str(tmp_path / "d"),
        "brokerName": "b1",
        "brokerIP1": "127.0.0.1",
        "advertise": "broker.example.org:1",
        "httpPort": "0",
        "namesrvAddr": "a:1;b:2",
    }
    assert expected.items() <= items.items()


def test_name_servers_of_flag_file_and_environment(tmp_path: Path) -> None:
    config_file = tmp_path / "broker.conf"
    config_file.write_text("namesrvAddr=file:1\n")
    env = {"NAMESRV_ADDR": "environment:1"}
    assert shown(home=tmp_path, env=env)["namesrvAddr"] == "environment:1"
    from_file = run("main", "broker", "-c", str(config_file), "-p", home=tmp_path, env=env)
    assert "namesrvAddr=file:1\n" in from_file.stdout
    assert from_file.stdout.startswith(f"load config properties file OK, {config_file}\n")
    both = run("main", "broker", "-c", str(config_file), "-n", "flag:1", "-p", home=tmp_path, env=env)
    assert "namesrvAddr=flag:1\n" in both.stdout


def test_important_items(tmp_path: Path) -> None:
    ended = run("main", "broker", "-m", home=tmp_path)
    items = parse_properties(ended.stdout)
    assert ended.returncode == 0
    assert {"brokerName", "storePathRootDir", "brokerRole", "autoCreateTopicEnable"} <= items.keys()
    assert "serverWorkerThreads" not in items


def test_unknown_keys_are_warned_of(tmp_path: Path) -> None:
    config_file = tmp_path / "broker.conf"
    config_file.write_text("brokerNames=x\n")
    ended = run("main", "broker", "-c", str(config_file), "-p", home=tmp_path)
    assert ended.returncode == 0
    assert ended.stderr == (
        f"warning: {config_file}: unknown key brokerNames is ignored; the nearest known key is brokerName\n"
    )


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("-c", "/nowhere"), "cannot read the config file /nowhere"),
        (("-n", "nowhere"), "address 'nowhere' is not of the form host:port"),
        (("--advertise", "nowhere"), "address 'nowhere' is not of the form host:port"),
        (("--port", "65535"), "listenPort=65535: expected 3 to 65534"),
    ],
)
def test_refused_with_one_sentence(tmp_path: Path, args: tuple[str, ...], sentence: str) -> None:
    ended = run("main", "broker", *args, home=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"apogee: {sentence}")
    assert ended.stderr.count("\n") == 1


def test_the_process_becomes_the_broker_with_these_settings(tmp_path: Path) -> None:
    class Became(Exception):
        pass

    commands = []

    def become(path: str, command: list[str], environment: dict[str, str]) -> None:
        commands.append((path, command, environment))
        raise Became

    with patch.object(os, "execve", become), pytest.raises(Became):
        run("main", "broker", "--name", "b9", "--log-level", "debug", home=tmp_path)
    ((path, command, environment),) = commands
    assert command[:4] == [path, "-P", "-m", "apogeemq.broker"]
    settings = settings_from_argument(command[4], environment)
    assert settings.config.broker_name == "b9"
    assert (settings.log_dir, settings.log_level) == (str(tmp_path / "store" / "logs"), "DEBUG")
