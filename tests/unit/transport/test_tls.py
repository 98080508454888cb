"""TLS settings, and TLS and plain text on one port."""

from __future__ import annotations

import builtins
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from apogeemq.errors import ConfigError, ConnectFailed, ConnectionLost
from apogeemq.transport.tls import (
    TLS_KEYS,
    ClientAuth,
    TlsFiles,
    TlsMode,
    TlsServerContexts,
    TlsSettings,
    client_context,
    merged_properties,
)
from tests.unit.transport.certificates import Authority, server_settings, trusting
from tests.unit.transport.live import ECHO, Running, on_each_loop, pooled, serving

ANY_CERTIFICATE = TlsSettings()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


# -- settings ------------------------------------------------------------------------------------------------


def test_apaches_defaults() -> None:
    settings = TlsSettings.from_properties({})
    assert settings == TlsSettings(TlsMode.PERMISSIVE, False, True, ClientAuth.NONE, TlsFiles(), TlsFiles())


def test_every_key() -> None:
    settings = TlsSettings.from_properties(
        {
            "tls.server.mode": "enforcing",
            "tls.enable": "TRUE",
            "tls.test.mode.enable": "false",
            "tls.server.need.client.auth": "require",
            "tls.server.keyPath": "/s/key",
            "tls.server.keyPassword": " s p ",
            "tls.server.certPath": "/s/cert",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": "/s/trust",
            "tls.client.keyPath": "/c/key",
            "tls.client.keyPassword": "cp",
            "tls.client.certPath": "/c/cert",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": "/c/trust",
            "tls.config.file": "/elsewhere",
            "other": "ignored",
        }
    )
    assert settings == TlsSettings(
        TlsMode.ENFORCING,
        True,
        False,
        ClientAuth.REQUIRE,
        TlsFiles("/s/key", " s p ", "/s/cert", True, "/s/trust"),
        TlsFiles("/c/key", "cp", "/c/cert", True, "/c/trust"),
    )


def test_all_keys_are_listed() -> None:
    assert len(TLS_KEYS) == len(set(TLS_KEYS)) == 15
    assert "tls.server.trustCertPath" in TLS_KEYS


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"tls.server.mode": "on"}, "tls.server.mode is 'on', expected one of disabled, permissive, enforcing"),
        ({"tls.enable": "yes"}, "tls.enable is 'yes', expected true or false"),
        ({"tls.test.mode.enable": "1"}, "tls.test.mode.enable is '1', expected true or false"),
        (
            {"tls.server.need.client.auth": "maybe"},
            "tls.server.need.client.auth is 'maybe', expected one of none, optional, require",
        ),
        ({"tls.client.authServer": "x"}, "tls.client.authServer is 'x', expected true or false"),
        ({"tls.server.keyPath": "k"}, "tls.server.keyPath and tls.server.certPath are needed together"),
        ({"tls.client.certPath": "c"}, "tls.client.keyPath and tls.client.certPath are needed together"),
        ({"tls.server.need.client.auth": "require"}, "needs tls.server.authClient=true"),
        (
            {"tls.server.mode": "enforcing", "tls.test.mode.enable": "false"},
            "tls.server.mode=enforcing needs tls.server.certPath",
        ),
    ],
)
def test_wrong_values_are_named(properties: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TlsSettings.from_properties(properties)


def test_the_file_wins_but_for_the_keys_that_decide_whether_there_is_tls() -> None:
    given = {"tls.server.mode": "disabled", "tls.server.certPath": "a", "tls.enable": "true"}
    from_file = {"tls.server.mode": "enforcing", "tls.server.certPath": "b", "tls.enable": "false", "x": "y"}
    assert merged_properties(given, from_file) == {
        "tls.server.mode": "disabled",
        "tls.server.certPath": "b",
        "tls.enable": "true",
        "x": "y",
    }


def test_passwords_are_not_shown() -> None:
    assert "hush" not in repr(TlsSettings(server=TlsFiles("k", "hush", "c")))


# -- modes ---------------------------------------------------------------------------------------------------


async def ask(running: Running, tls: ssl.SSLContext | None) -> bool:
    """Whether a client of this kind is served."""
    async with pooled(tls=tls) as pool:
        try:
            return (await pool.request(running.address, ECHO, None, b"x" * 100_000)).body == b"x" * 100_000
        except (ConnectFailed, ConnectionLost):
            return False


@pytest.mark.parametrize(
    ("mode", "serves_plain", "serves_tls"),
    [(TlsMode.DISABLED, True, False), (TlsMode.PERMISSIVE, True, True), (TlsMode.ENFORCING, False, True)],
)
@on_each_loop
async def test_the_three_modes(
    authority: Authority, mode: TlsMode, serves_plain: bool, serves_tls: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tls=TlsServerContexts(mode, server_settings(authority))) as running:
        assert await ask(running, None) is serves_plain
        assert await ask(running, trusting(authority)) is serves_tls
        counters = running.server.counters
        assert counters.tls_failed == (mode is TlsMode.ENFORCING)
        assert counters.closed_malformed == (mode is TlsMode.DISABLED)
        if mode is TlsMode.ENFORCING:
            assert "it speaks plain text, but TLS is enforced" in caplog.text


@on_each_loop
async def test_a_client_that_verifies_refuses_a_stranger(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with serving(tls=TlsServerContexts(TlsMode.PERMISSIVE, server_settings(authority))) as running:
        other = Authority(tmp_path / "other")
        async with pooled(tls=trusting(other)) as pool:
            with pytest.raises(ConnectFailed, match="certificate verify failed"):
                await pool.request(running.address, ECHO)
        assert await ask(running, client_context(ANY_CERTIFICATE))  # one that does not verify takes anyone


@pytest.mark.parametrize(
    ("client_auth", "verify", "without_certificate"),
    [("none", "true", True), ("optional", "true", True), ("optional", "false", True), ("require", "true", False)],
)
@on_each_loop
async def test_certificates_of_clients(
    authority: Authority, client_auth: str, verify: str, without_certificate: bool
) -> None:
    asked = {"tls.server.need.client.auth": client_auth, "tls.server.authClient": verify}
    settings = server_settings(authority, **asked)
    async with serving(tls=TlsServerContexts(TlsMode.ENFORCING, settings)) as running:
        assert await ask(running, trusting(authority, with_certificate=True))
        assert await ask(running, trusting(authority)) is without_certificate


@on_each_loop
async def test_a_clients_certificate_from_elsewhere_is_refused(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    for client_auth in ("optional", "require"):
        asked = {"tls.server.need.client.auth": client_auth, "tls.server.authClient": "true"}
        settings = server_settings(authority, **asked)
        async with serving(tls=TlsServerContexts(TlsMode.ENFORCING, settings)) as running:
            stranger = client_context(TlsSettings.from_properties(other.side("client", "stranger")))
            assert not await ask(running, stranger)


@on_each_loop
async def test_a_handshake_that_fails_is_counted_and_logged_with_the_address(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tls=TlsServerContexts(TlsMode.PERMISSIVE, server_settings(authority))) as running:
        peer = await running.connect()
        peer.send(b"\x16\x03\x01\x00\x05hello")
        await peer.closed()
        await peer.close()
        assert running.server.counters.tls_failed == 1
        assert f"closed 127.0.0.1:{peer.address[1]}: it failed the TLS handshake" in caplog.text
        assert running.server.connection_count == 0


# -- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["missing", "not-pem", "other-key"])
def test_files_that_are_no_certificate_stop_the_start(authority: Authority, broken: str) -> None:
    settings = server_settings(authority)
    if broken == "missing":
        Path(settings.server.key_path).unlink()
    elif broken == "not-pem":
        Path(settings.server.cert_path).write_text("hello")
    else:
        authority.issue("server", cert=False)
    with pytest.raises(ConfigError, match="are not a PEM certificate and its key"):
        TlsServerContexts(TlsMode.PERMISSIVE, settings)
    assert TlsServerContexts(TlsMode.DISABLED, settings).context() is None  # not even looked at


@pytest.mark.parametrize("text", [None, "hello"])
def test_a_trust_file_that_is_none_stops_the_start(authority: Authority, text: str | None) -> None:
    settings = server_settings(authority, **{"tls.server.need.client.auth": "require", "tls.server.authClient": "true"})
    if text is None:
        authority.trust_path.unlink()
    else:
        authority.trust_path.write_text(text)
    with pytest.raises(ConfigError, match=r"tls\.server\.trustCertPath .* is not a file of PEM certificates"):
        TlsServerContexts(TlsMode.PERMISSIVE, settings)
    with pytest.raises(ConfigError, match=r"tls\.client\.trustCertPath"):
        trusting(authority)


def test_an_encrypted_key_needs_its_password_and_never_asks_for_it(authority: Authority) -> None:
    from cryptography.hazmat.primitives import serialization

    settings = server_settings(authority)
    key_path = Path(settings.server.key_path)
    key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"hush")
    key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    with pytest.raises(ConfigError):
        TlsServerContexts(TlsMode.PERMISSIVE, settings)
    files = TlsFiles(str(key_path), "hush", settings.server.cert_path)
    assert TlsServerContexts(TlsMode.PERMISSIVE, TlsSettings(server=files)).context() is not None


# -- test mode -----------------------------------------------------------------------------------------------


@on_each_loop
async def test_without_a_certificate_test_mode_makes_one() -> None:
    contexts = TlsServerContexts(TlsMode.PERMISSIVE)
    async with serving(tls=contexts) as running:
        assert await ask(running, None)
        assert contexts._context is None  # not before it is needed
        assert await ask(running, client_context(ANY_CERTIFICATE))
        assert contexts.context() is contexts.context()


@on_each_loop
async def test_without_certificate_and_test_mode_tls_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tls=TlsServerContexts(TlsMode.PERMISSIVE, TlsSettings(test_mode=False))) as running:
        assert not await ask(running, client_context(ANY_CERTIFICATE))
        assert await ask(running, None)
        assert running.server.counters.tls_failed == 1
        assert "asks for TLS, which is not set up" in caplog.text


def test_test_mode_without_the_package_it_needs_refuses_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real_import = builtins.__import__

    def without_cryptography(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "apogeemq.transport.self_signed", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_cryptography)
    contexts = TlsServerContexts(TlsMode.PERMISSIVE)
    assert contexts.context() is None
    assert contexts.context() is None
    assert caplog.text.count("a test certificate needs the package cryptography") == 1
