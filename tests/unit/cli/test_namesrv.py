"""`apogee namesrv`: configuration, files and flags, and what is said when they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.runtime.config import parse_properties
from tests.unit.cli.commands import run


def test_help(tmp_path: Path) -> None:
    ended = run("main", "namesrv", "-h", home=tmp_path)
    assert ended.returncode == 0
    for flag in ("--configFile", "--namesrvAddr", "--printConfigItem", "--bind", "--port", "--data", "--log-dir"):
        assert flag in ended.stdout


def test_print_shows_the_effective_configuration_sorted(tmp_path: Path) -> None:
    config_file = tmp_path / "namesrv.conf"
    config_file.write_text("listenPort=1\norderMessageEnable = TRUE\ntls.server.keyPassword=hush\n")
    ended = run(
        *("main", "namesrv", "-p", "-c", str(config_file), "--bind", "127.0.0.1", "--port", "0"),
        *("--data", str(tmp_path / "data"), "-n", "10.0.0.1:9876", "--http-port", "8080"),
        home=tmp_path,
        env={"ROCKETMQ_HOME": "/opt/rocketmq"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    first, *lines = ended.stdout.splitlines()
    assert first == f"load config properties file OK, {config_file}"
    shown = parse_properties("\n".join(lines))
    expected = {
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "orderMessageEnable": "true",
        "productNamesrvAddr": "10.0.0.1:9876",
        "httpPort": "8080",
        "rocketmqHome": "/opt/rocketmq",
        "kvConfigPath": str(tmp_path / "data" / "kvConfig.json"),
        "configStorePath": str(config_file),
        "tls.server.keyPassword": "******",
    }
    assert {key: shown[key] for key in expected} == expected
    assert lines[:-1] == sorted(lines[:-1])  # the TLS keys come last
    assert "hush" not in ended.stdout


def test_home_folder_holds_what_is_not_placed_elsewhere(tmp_path: Path) -> None:
    shown = parse_properties(run("main", "namesrv", "-p", home=tmp_path).stdout)
    assert shown["kvConfigPath"] == str(tmp_path / "namesrv" / "kvConfig.json")
    assert shown["rocketmqHome"] == ""
    assert not (tmp_path / "namesrv").exists()


def test_unknown_key_is_a_warning_on_stderr(tmp_path: Path) -> None:
    config_file = tmp_path / "namesrv.conf"
    config_file.write_text("listenport=1\n")
    ended = run("main", "namesrv", "-p", "-c", str(config_file), home=tmp_path)
    assert ended.returncode == 0
    assert ended.stderr == (
        f"warning: {config_file}: unknown key listenport is ignored; the nearest known key is listenPort\n"
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"listenPort=many\n", "listenPort=many: expected a whole number from 0 to 65535"),
        (b"clusterTest=maybe\n", "clusterTest=maybe: expected true or false"),
        (b"aclEnable=true\n", "aclEnable=true: expected aclAccountsFile to name the file of accounts"),
        (b"tls.server.mode=maybe\n", "tls.server.mode is 'maybe', expected one of disabled, permissive, enforcing"),
        (b"a=\\u12\n", "is not a properties file: "),
        (b"tls.config.file=/nowhere\n", "cannot read the config file /nowhere: No such file or directory"),
    ],
)
def test_bad_file_is_one_sentence_and_status_2(tmp_path: Path, content: bytes, sentence: str) -> None:
    config_file = tmp_path / "namesrv.conf"
    config_file.write_bytes(content)
    ended = run("main", "namesrv", "-c", str(config_file), home=tmp_path)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert ended.stderr.startswith("apogee: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("-c", "/nowhere/namesrv.conf"), "cannot read the config file /nowhere/namesrv.conf: No such file"),
        (("-c", "/"), "cannot read the config file /: Is a directory"),
        (("--port", "65536"), "listenPort=65536: expected a whole number from 0 to 65535"),
        (("--port", "ninety"), "--port"),
        (("--http-port", "-2"), "httpPort=-2: expected a whole number from -1 to 65535"),
        (("--log-level", "chatty"), "--log-level"),
        (("--teapot",), "No such option"),
    ],
)
def test_bad_flag_is_status_2(tmp_path: Path, args: tuple[str, ...], sentence: str) -> None:
    ended = run("main", "namesrv", *args, home=tmp_path)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert ended.stdout == ""


def test_keys_of_the_tls_file_go_over_the_others(tmp_path: Path) -> None:
    tls_file = tmp_path / "tls.properties"
    tls_file.write_text("tls.test.mode.enable=false\ntls.server.mode=enforcing\ntls.server.certPaths=x\n")
    config_file = tmp_path / "namesrv.conf"
    config_file.write_text(f"tls.config.file={tls_file}\ntls.test.mode.enable=true\n")
    ended = run("main", "namesrv", "-p", "-c", str(config_file), home=tmp_path)
    shown = parse_properties(ended.stdout)
    assert shown["tls.test.mode.enable"] == "false"
    assert "tls.server.mode" not in shown
    assert "unknown key tls.server.certPaths is ignored" in ended.stderr
    assert "nearest known key is tls.server.certPath\n" in ended.stderr


def test_latin_1_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    config_file = tmp_path / "namesrv.conf"
    config_file.write_bytes("productEnvName=caf\u00e9\n".encode("latin-1"))
    ended = run("main", "namesrv", "-p", "-c", str(config_file), home=tmp_path, env={"PYTHONIOENCODING": "utf-8"})
    assert "productEnvName=café\n" in ended.stdout
