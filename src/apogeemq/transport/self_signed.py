"""A certificate made on the spot, for servers in test mode: it encrypts, and proves nothing.

Importing this module needs the package `cryptography`.
"""

from __future__ import annotations

import datetime
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_VALID_DAYS = 3650


def self_signed_context() -> ssl.SSLContext:
    """A server context with a new key and certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(key)
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="apogeemq-tls-") as folder:  # readable by its owner only
        path = Path(folder) / "certificate.pem"
        path.write_bytes(pem)
        context.load_cert_chain(path)
    return context


def _certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ApogeeMQ test certificate")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .sign(key, hashes.SHA256())
    )
