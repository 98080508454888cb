"""ACL 1.0 request signatures: HMAC-SHA1 over the field values in key order, then the body."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hmac import compare_digest, digest

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"

# Apache's checks leave out the signature itself, and the field its clients add to a query when all else is done.
_NOT_SIGNED = frozenset((SIGNATURE, "_UNIQUE_KEY_QUERY"))


def sign(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The signature of a request whose fields (access key included) and body these are."""
    values = "".join(fields[name] for name in sorted(fields) if name not in _NOT_SIGNED)
    return b64encode(digest(secret_key.encode(), values.encode() + body, "sha1")).decode()


def signed(
    fields: Mapping[str, str], body: bytes, access_key: str, secret_key: str, security_token: str = ""
) -> dict[str, str]:
    """The fields with access key, token if there is one, and signature added."""
    complete = {**fields, ACCESS_KEY: access_key}
    if security_token:
        complete[SECURITY_TOKEN] = security_token
    complete[SIGNATURE] = sign(complete, body, secret_key)
    return complete


def is_signed_with(fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    return compare_digest(fields.get(SIGNATURE, "").encode(), sign(fields, body, secret_key).encode())
