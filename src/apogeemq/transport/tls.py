"""TLS for servers and clients, under Apache's `tls.*` keys.

Where we differ from Apache: a certificate that is configured is used even in test mode (Apache's default, which
there silently ignores the paths), and a wrong value is an error instead of a default.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from apogeemq.errors import ConfigError

log = logging.getLogger(__name__)

CONFIG_FILE_KEY: Final = "tls.config.file"  # read by whoever reads files; see `merged_properties`
MODE_KEY: Final = "tls.server.mode"
ENABLE_KEY: Final = "tls.enable"
TEST_MODE_KEY: Final = "tls.test.mode.enable"
CLIENT_AUTH_KEY: Final = "tls.server.need.client.auth"

# How often the thread that waits for file changes looks whether it should end: the longest a stop can wait for it.
_WATCH_STEP_MS = 200

EnumT = TypeVar("EnumT", bound=Enum)


class TlsMode(Enum):
    """How a server treats the first byte of a connection."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(Enum):
    """Whether a server asks clients for a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class TlsFiles(msgspec.Struct, frozen=True):
    """The PEM files of one side. An empty path is a file that is not configured."""

    key_path: str = ""
    key_password: str = ""
    cert_path: str = ""
    verify_peer: bool = False
    trust_path: str = ""  # with `verify_peer`; empty means the system's certificate authorities

    def __repr__(self) -> str:  # settings are logged at start; the password must not be
        return f"TlsFiles(cert={self.cert_path!r}, key={self.key_path!r}, trust={self.trust_path!r})"

    @property
    def has_certificate(self) -> bool:
        return bool(self.cert_path)


class TlsSettings(msgspec.Struct, frozen=True):
    """Apache's `tls.*` keys, typed."""

    server_mode: TlsMode = TlsMode.PERMISSIVE
    client_enabled: bool = False
    test_mode: bool = True
    client_auth: ClientAuth = ClientAuth.NONE
    server: TlsFiles = TlsFiles()
    client: TlsFiles = TlsFiles()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TlsSettings:
        """Reads the keys of `TLS_KEYS` and ignores all others. Raises ConfigError."""
        settings = cls(
            _choice(properties, MODE_KEY, TlsMode.PERMISSIVE),
            _truth(properties, ENABLE_KEY, False),
            _truth(properties, TEST_MODE_KEY, True),
            _choice(properties, CLIENT_AUTH_KEY, ClientAuth.NONE),
            _files(properties, "server", "authClient"),
            _files(properties, "client", "authServer"),
        )
        if settings.client_auth is ClientAuth.REQUIRE and not settings.server.verify_peer:
            # Apache then takes any certificate without looking at it, which Python's TLS cannot and nobody should.
            raise ConfigError(f"{CLIENT_AUTH_KEY}=require needs tls.server.authClient=true")
        if settings.server_mode is TlsMode.ENFORCING and not (settings.server.has_certificate or settings.test_mode):
            raise ConfigError(f"{MODE_KEY}=enforcing needs tls.server.certPath and tls.server.keyPath")
        return settings


_FILE_KEYS = {
    "server": ("keyPath", "keyPassword", "certPath", "authClient", "trustCertPath"),
    "client": ("keyPath", "keyPassword", "certPath", "authServer", "trustCertPath"),
}
TLS_KEYS: Final = frozenset(
    (
        MODE_KEY,
        ENABLE_KEY,
        CONFIG_FILE_KEY,
        TEST_MODE_KEY,
        CLIENT_AUTH_KEY,
        *(f"tls.{side}.{name}" for side, names in _FILE_KEYS.items() for name in names),
    )
)


def merged_properties(given: Mapping[str, str], from_file: Mapping[str, str]) -> dict[str, str]:
    """What holds when both a `tls.config.file` and other settings exist: Apache lets the file win, save for the two
    keys that decide whether there is TLS at all."""
    return {**given, **{key: value for key, value in from_file.items() if key not in (MODE_KEY, ENABLE_KEY)}}


def _choice(properties: Mapping[str, str], key: str, default: EnumT) -> EnumT:
    text = properties.get(key, "").strip()
    if not text:
        return default
    for member in type(default):
        if member.value == text.lower():
            return member
    raise ConfigError(f"{key} is {text!r}, expected one of {', '.join(member.value for member in type(default))}")


def _truth(properties: Mapping[str, str], key: str, default: bool) -> bool:
    text = properties.get(key, "").strip()
    if not text:
        return default
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{key} is {text!r}, expected true or false")
    return text.lower() == "true"


def _files(properties: Mapping[str, str], side: str, verify_key: str) -> TlsFiles:
    def text(name: str) -> str:
        return properties.get(f"tls.{side}.{name}", "").strip()

    key_path, cert_path = text("keyPath"), text("certPath")
    if bool(key_path) != bool(cert_path):
        raise ConfigError(f"tls.{side}.keyPath and tls.{side}.certPath are needed together; only one is given")
    password = properties.get(f"tls.{side}.keyPassword", "")
    verify = _truth(properties, f"tls.{side}.{verify_key}", False)
    return TlsFiles(key_path, password, cert_path, verify, text("trustCertPath"))


# -- contexts ------------------------------------------------------------------------------------------------


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context from the files of the server side. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_certificate(context, settings.server, "server")
    if settings.server.verify_peer and settings.client_auth is not ClientAuth.NONE:
        _load_trust(context, settings.server, ssl.Purpose.CLIENT_AUTH, "server")
        is_required = settings.client_auth is ClientAuth.REQUIRE
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context from the files of the client side. Raises ConfigError.

    Names are not checked, as in Apache: routes hold addresses, for which certificates are rarely made.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if settings.client.verify_peer:
        _load_trust(context, settings.client, ssl.Purpose.SERVER_AUTH, "client")
    else:
        context.verify_mode = ssl.CERT_NONE
    if settings.client.has_certificate:
        _load_certificate(context, settings.client, "client")
    return context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles, side: str) -> None:
    try:
        # A password is always passed: without one, OpenSSL would ask for it on the terminal.
        context.load_cert_chain(files.cert_path, files.key_path, lambda: files.key_password)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"tls.{side}.certPath {files.cert_path!r} and tls.{side}.keyPath {files.key_path!r} "
            f"are not a PEM certificate and its key: {error}"
        ) from None


def _load_trust(context: ssl.SSLContext, files: TlsFiles, purpose: ssl.Purpose, side: str) -> None:
    if not files.trust_path:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(files.trust_path)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"tls.{side}.trustCertPath {files.trust_path!r} is not a file of PEM certificates: {error}"
        ) from None


class TlsServerContexts:
    """The context new connections get; connections already made keep theirs.

    `watch` follows the files. `reload_count` counts the contexts that replaced another, and `reloaded` is set each
    time; whoever waits for it clears it.
    """

    def __init__(self, mode: TlsMode, settings: TlsSettings | None = None) -> None:
        self.mode = mode
        self.reload_count = 0
        self.reloaded = asyncio.Event()
        self._settings = settings or TlsSettings()
        self._context: ssl.SSLContext | None = None
        self._has_tried_self_signing = False
        self._loaded: dict[str, bytes] = {}  # path -> fingerprint of the content in force
        self._refused: dict[str, bytes] = {}  # the same for content that proved broken: said once, not tried again
        if mode is not TlsMode.DISABLED and self._settings.server.has_certificate:
            self._loaded = self._fingerprints()
            self._context = server_context(self._settings)

    @classmethod
    def disabled(cls) -> TlsServerContexts:
        return cls(TlsMode.DISABLED)

    def context(self) -> ssl.SSLContext | None:
        """None: TLS is not set up, and a connection that asks for it is closed."""
        if self._context is None and self.mode is not TlsMode.DISABLED and not self._has_tried_self_signing:
            self._has_tried_self_signing = True
            if self._settings.test_mode:
                self._context = _self_signed_context()
        return self._context

    async def watch(self) -> None:
        """Reload when the files change, until cancelled. Returns at once when there are no files to watch."""
        if not self._loaded:
            return
        try:
            await self._watch_folders({Path(path).absolute().parent for path in self._loaded})
        except (OSError, RuntimeError) as error:
            log.error("TLS files are not watched, a restart will be needed to renew them: %s", error)

    async def _watch_folders(self, folders: set[Path]) -> None:
        """Folders, because a certificate is usually renewed by renaming a new file, or a link, over the old."""
        from watchfiles import awatch  # here, because few servers have certificates and it is not small

        changes = awatch(*folders, watch_filter=None, recursive=False, step=_WATCH_STEP_MS)
        next_change = asyncio.ensure_future(anext(changes, None))
        try:
            await asyncio.sleep(0)  # its first step puts the watch in place, so that nothing is missed between
            await self.reload_if_changed()
            while await next_change is not None:
                next_change = asyncio.ensure_future(anext(changes, None))
                await self.reload_if_changed()
        finally:
            next_change.cancel()
            await asyncio.wait([next_change])

    async def reload_if_changed(self) -> bool:
        """Apache's rule: reload when certificate and key have both changed, or at once when the trust file has."""
        loaded, files = self._loaded, self._settings.server
        now = await asyncio.to_thread(self._fingerprints)
        changed = {path for path in loaded if now[path] != loaded[path] and now[path]}
        if files.trust_path not in changed and not {files.cert_path, files.key_path} <= changed:
            return False
        if now == self._refused:
            return False
        try:
            self._context = await asyncio.to_thread(server_context, self._settings)
        except ConfigError as error:
            self._refused = now
            log.error("new TLS files are not used, the old ones stay in force: %s", error)
            return False
        self._loaded = now
        self.reload_count += 1
        self.reloaded.set()
        log.info("TLS files changed; new connections use them")
        return True

    def _fingerprints(self) -> dict[str, bytes]:
        files = self._settings.server
        return {path: _fingerprint(path) for path in (files.cert_path, files.key_path, files.trust_path) if path}


def _fingerprint(path: str) -> bytes:
    """Empty for a file that is not there: perhaps it is just being replaced."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:
        return b""


def _self_signed_context() -> ssl.SSLContext | None:
    try:
        from apogeemq.transport.self_signed import self_signed_context
    except ImportError:
        log.warning("no TLS: no tls.server.certPath is set, and a test certificate needs the package cryptography")
        return None
    return self_signed_context()
