"""Certificates that are renewed while the server runs."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.errors import ConnectFailed
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.tls import TlsMode, TlsServerContexts, TlsSettings
from tests.unit.transport.certificates import Authority, server_settings, trusting
from tests.unit.transport.live import ECHO, PATIENCE_SECONDS, on_each_loop, pooled, serving

MUTUAL = {"tls.server.need.client.auth": "require", "tls.server.authClient": "true"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def answers(pool: ConnectionPool, address: str) -> bool:
    return (await pool.request(address, ECHO, timeout_seconds=PATIENCE_SECONDS)).code == 0


def contexts_of(authority: Authority, **more: str) -> TlsServerContexts:
    return TlsServerContexts(TlsMode.PERMISSIVE, server_settings(authority, **more))


@on_each_loop
async def test_nothing_changed(authority: Authority) -> None:
    contexts = contexts_of(authority)
    assert not await contexts.reload_if_changed()
    assert (contexts.reload_count, contexts.reloaded.is_set()) == (0, False)


@on_each_loop
async def test_certificate_and_key_count_only_together(authority: Authority) -> None:
    contexts = contexts_of(authority)
    before = contexts.context()
    certificate = (authority.folder / "server.crt").read_bytes()
    authority.issue("server", key=False)
    assert not await contexts.reload_if_changed()  # the certificate alone
    (authority.folder / "server.crt").write_bytes(certificate)
    authority.issue("server", cert=False)
    assert not await contexts.reload_if_changed()  # the key alone
    assert contexts.context() is before
    authority.issue("server")
    assert await contexts.reload_if_changed()
    assert contexts.context() is not before
    assert (contexts.reload_count, contexts.reloaded.is_set()) == (1, True)
    assert not await contexts.reload_if_changed()  # and is then done with


@on_each_loop
async def test_one_after_the_other_is_enough(authority: Authority) -> None:
    contexts = contexts_of(authority)
    cert_path, key_path = authority.issue("new")
    for new, name in ((cert_path, "server.crt"), (key_path, "server.key")):
        assert contexts.reload_count == 0
        new.replace(authority.folder / name)
        await contexts.reload_if_changed()
    assert contexts.reload_count == 1


@on_each_loop
async def test_the_trust_file_counts_at_once(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    contexts = contexts_of(authority, **MUTUAL)
    authority.write_trust(more=other)
    assert await contexts.reload_if_changed()


@pytest.mark.parametrize("broken", ["not-pem", "no-match", "empty"])
@on_each_loop
async def test_broken_files_leave_the_old_ones_in_force(
    authority: Authority, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = contexts_of(authority)
    before = contexts.context()
    cert_path, key_path = authority.issue("server")
    if broken == "no-match":
        authority.issue("server", key=False)
    else:
        cert_path.write_text("" if broken == "empty" else "-----BEGIN CERTIFICATE-----\nhalf a fi")
    for _ in range(2):
        assert not await contexts.reload_if_changed()
    assert contexts.context() is before
    assert caplog.text.count("new TLS files are not used, the old ones stay in force") == 1
    key_before = key_path.read_bytes()
    repaired = authority.issue("repaired")
    repaired[0].replace(cert_path)
    key_path.write_bytes(repaired[1].read_bytes())
    assert key_path.read_bytes() != key_before
    assert await contexts.reload_if_changed()


@on_each_loop
async def test_a_certificate_written_in_two_steps_is_used_when_it_is_whole(authority: Authority) -> None:
    contexts = contexts_of(authority)
    cert_path, _ = authority.issue("server")
    whole = cert_path.read_bytes()
    cert_path.write_bytes(whole[: len(whole) // 2])
    assert not await contexts.reload_if_changed()
    cert_path.write_bytes(whole)  # the key has not changed since the failed attempt
    assert await contexts.reload_if_changed()


@on_each_loop
async def test_a_file_that_is_gone_for_a_moment_is_not_a_change(authority: Authority) -> None:
    contexts = contexts_of(authority, **MUTUAL)
    authority.trust_path.unlink()
    assert not await contexts.reload_if_changed()
    authority.write_trust()
    assert not await contexts.reload_if_changed()  # the same content again


# -- watching ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def watched(contexts: TlsServerContexts) -> AsyncIterator[None]:
    watching = asyncio.ensure_future(contexts.watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled()


@on_each_loop
async def test_new_connections_use_new_files_and_old_connections_stay(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    contexts = contexts_of(authority)
    async with serving(tls=contexts) as running, watched(contexts), pooled(tls=trusting(authority)) as pool:
        assert await answers(pool, running.address)
        successor = Authority(tmp_path / "new")
        cert_path, key_path = successor.issue("server")
        cert_path.replace(tmp_path / "server.crt")
        key_path.replace(tmp_path / "server.key")
        await contexts.reloaded.wait()
        async with pooled(tls=trusting(successor)) as new_pool:
            assert await answers(new_pool, running.address)
        assert await answers(pool, running.address)
        assert running.server.counters.accepted == 2  # the first connection still serves
        async with pooled(tls=trusting(authority)) as old_pool:
            with pytest.raises(ConnectFailed):
                await answers(old_pool, running.address)


@on_each_loop
async def test_what_changed_before_the_watch_began_is_seen(authority: Authority) -> None:
    contexts = contexts_of(authority)
    authority.issue("server")
    async with watched(contexts):
        await contexts.reloaded.wait()
        contexts.reloaded.clear()
        authority.issue("server")
        await contexts.reloaded.wait()
    assert contexts.reload_count == 2


@on_each_loop
async def test_links_that_are_turned_are_seen(authority: Authority, tmp_path: Path) -> None:
    """Kubernetes renews a mounted secret by turning a link to another folder."""
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        cert_path, key_path = authority.issue("server")
        cert_path.replace(tmp_path / version / "tls.crt")
        key_path.replace(tmp_path / version / "tls.key")
    mount = tmp_path / "mount"
    mount.mkdir()
    (mount / "..data").symlink_to("../one")
    for name in ("tls.crt", "tls.key"):
        (mount / name).symlink_to(f"..data/{name}")
    paths = {"tls.server.certPath": str(mount / "tls.crt"), "tls.server.keyPath": str(mount / "tls.key")}
    contexts = TlsServerContexts(TlsMode.PERMISSIVE, TlsSettings.from_properties(paths))
    async with watched(contexts):
        await asyncio.sleep(0)
        (mount / "..new").symlink_to("../two")
        (mount / "..new").replace(mount / "..data")
        await contexts.reloaded.wait()


@on_each_loop
async def test_files_that_cannot_be_watched_are_said_so(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    contexts = contexts_of(authority)
    shutil.rmtree(authority.folder)
    await contexts.watch()
    assert "TLS files are not watched" in caplog.text
    assert contexts.context() is not None


@on_each_loop
async def test_there_is_nothing_to_watch_without_files() -> None:
    for contexts in (TlsServerContexts.disabled(), TlsServerContexts(TlsMode.PERMISSIVE)):
        await contexts.watch()
