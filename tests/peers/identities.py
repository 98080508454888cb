"""Certificates that Apache's servers and clients can read."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


def write_identity(authority: trustme.CA, folder: Path, name: str) -> tuple[Path, Path]:
    """Certificate and key; the key as PKCS#8, the only form Apache reads."""
    leaf = authority.issue_cert("127.0.0.1", common_name=name)
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    private = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return cert, key
