"""Certificates for tests, made on the spot, in files as an operator would lay them."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme

from apogeemq.transport.tls import TlsSettings, client_context


class Authority:
    """A certificate authority and the folder its files are in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ca = trustme.CA()
        self.trust_path = folder / "trust.pem"
        self.write_trust()

    def write_trust(self, *, more: Authority | None = None) -> None:
        text = self._ca.cert_pem.bytes()
        self.trust_path.write_bytes(text + (more._ca.cert_pem.bytes() if more is not None else b""))

    def issue(self, name: str, *, cert: bool = True, key: bool = True) -> tuple[Path, Path]:
        """A new certificate and key in files of that name; either file may be left as it was."""
        issued = self._ca.issue_cert("127.0.0.1", common_name=name)
        cert_path, key_path = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        if cert:
            cert_path.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        if key:
            key_path.write_bytes(issued.private_key_pem.bytes())
        return cert_path, key_path

    def side(self, side: str, name: str) -> dict[str, str]:
        """The keys of one side, with a new certificate."""
        cert_path, key_path = self.issue(name)
        return {
            f"tls.{side}.certPath": str(cert_path),
            f"tls.{side}.keyPath": str(key_path),
            f"tls.{side}.trustCertPath": str(self.trust_path),
        }


def server_settings(authority: Authority, **more: str) -> TlsSettings:
    return TlsSettings.from_properties({**authority.side("server", "server"), **more})


def trusting(authority: Authority, *, with_certificate: bool = False) -> ssl.SSLContext:
    """A client that verifies the server's certificate, and shows one of its own if told to."""
    properties = {"tls.client.trustCertPath": str(authority.trust_path), "tls.client.authServer": "true"}
    if with_certificate:
        properties |= authority.side("client", "client")
    return client_context(TlsSettings.from_properties(properties))
