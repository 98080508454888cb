"""Apache's mqadmin speaks TLS with our name server, with and without a certificate of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.peers import apache, ours
from tests.peers.identities import write_identity

VERSION = "5.5.0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def name_server(peers: None, folder: Path) -> Iterator[ours.NameServer]:
    """TLS only, and clients must show a certificate."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    cert, key = write_identity(authority, folder, "server")
    write_identity(authority, folder, "client")
    config = folder / "namesrv.conf"
    config.write_text(
        "tls.server.mode=enforcing\n"
        "tls.test.mode.enable=false\n"
        f"tls.server.certPath={cert}\n"
        f"tls.server.keyPath={key}\n"
        "tls.server.need.client.auth=require\n"
        "tls.server.authClient=true\n"
        f"tls.server.trustCertPath={folder / 'ca.pem'}\n"
    )
    with ours.NameServer(work_dir=folder / "namesrv", args=("-c", str(config))) as server:
        yield server


def mqadmin(folder: Path, name: str, *flags: str) -> apache.AdminShell:
    return apache.AdminShell(VERSION, work_dir=folder / name, jvm_args=flags)


def tls_flags(folder: Path, *, with_certificate: bool) -> list[str]:
    flags = [
        "-Dtls.enable=true",
        "-Dtls.test.mode.enable=false",
        "-Dtls.client.authServer=true",
        f"-Dtls.client.trustCertPath={folder / 'ca.pem'}",
    ]
    if with_certificate:
        flags += [f"-Dtls.client.certPath={folder / 'client.pem'}", f"-Dtls.client.keyPath={folder / 'client.key'}"]
    return flags


def test_mqadmin_with_a_certificate_is_served_over_tls(name_server: ours.NameServer, folder: Path) -> None:
    with mqadmin(folder, "known", *tls_flags(folder, with_certificate=True)) as shell:
        answer = shell.run("getNamesrvConfig", "-n", name_server.address)
    assert "listenPort" in answer


def test_mqadmin_without_a_certificate_or_without_tls_is_not_served(name_server: ours.NameServer, folder: Path) -> None:
    with (
        mqadmin(folder, "unknown", *tls_flags(folder, with_certificate=False)) as unknown,
        mqadmin(folder, "plain") as plain,
    ):
        for shell in (unknown, plain):
            assert "listenPort" not in shell.run("getNamesrvConfig", "-n", name_server.address)
