"""Who may ask for what: ACL 1.0 signatures, and admin requests from this machine only.

Accounts are a TOML file::

    [[account]]
    accessKey = "broker-a"
    secretKey = "…"
    may = ["read", "register"]        # read, register, admin; admin includes the others
"""

from __future__ import annotations

import tomllib
from enum import Enum
from ipaddress import ip_address
from pathlib import Path

import msgspec

from apogeemq.errors import ConfigError, RequestRefused
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.signing import ACCESS_KEY, is_signed_with
from apogeemq.transport.channel import Channel


class Need(Enum):
    """What a request needs of its sender."""

    READ = "read"
    REGISTER = "register"
    ADMIN = "admin"


_NEEDS = {
    **dict.fromkeys(
        (
            RequestCode.GET_KV_CONFIG,
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            RequestCode.GET_BROKER_CLUSTER_INFO,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            RequestCode.GET_KVLIST_BY_NAMESPACE,
            RequestCode.GET_TOPICS_BY_CLUSTER,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            RequestCode.GET_BROKER_MEMBER_GROUP,
            RequestCode.GET_ALL_KV_CONFIG,
            RequestCode.WATCH_ROUTES,
            RequestCode.READ_ROUTE_JOURNAL,
        ),
        Need.READ,
    ),
    **dict.fromkeys(
        (
            RequestCode.REGISTER_BROKER,
            RequestCode.UNREGISTER_BROKER,
            RequestCode.QUERY_DATA_VERSION,
            RequestCode.BROKER_HEARTBEAT,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        ),
        Need.REGISTER,
    ),
}


def need_of(code: int) -> Need:
    """Every code that is neither a question nor a broker's word is for administrators."""
    return _NEEDS.get(code, Need.ADMIN)  # type: ignore[call-overload,no-any-return]


class Account(msgspec.Struct, forbid_unknown_fields=True):
    accessKey: str
    secretKey: str
    may: list[Need] = msgspec.field(default_factory=lambda: [Need.READ])


class _AccountsFile(msgspec.Struct, forbid_unknown_fields=True):
    account: list[Account] = []


def load_accounts(path: Path) -> dict[str, Account]:
    try:
        accounts = msgspec.convert(tomllib.loads(path.read_text()), _AccountsFile).account
    except OSError as error:
        raise ConfigError(f"cannot read the accounts file {path}: {error.strerror}") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"accounts file {path}: {error}") from error
    if not accounts:
        raise ConfigError(f"accounts file {path} holds no [[account]], so nobody could ever register")
    return {account.accessKey: account for account in accounts}


class AccessCheck:
    """A hook before every request. Refuses with NO_PERMISSION and counts; the connection lives on."""

    def __init__(self, accounts: dict[str, Account] | None, open_reads: bool, admin_from_loopback_only: bool) -> None:
        self._accounts = accounts
        self._open_reads = open_reads
        self._admin_from_loopback_only = admin_from_loopback_only
        self.refused_count = 0

    def __call__(self, channel: Channel, command: Command) -> None:
        try:
            self._check(channel, command)
        except RequestRefused:
            self.refused_count += 1
            raise

    def _check(self, channel: Channel, command: Command) -> None:
        need = need_of(command.code)
        if need is Need.ADMIN and self._admin_from_loopback_only and not _is_loopback(channel.address[0]):
            raise RequestRefused(ResponseCode.NO_PERMISSION, "administration is allowed from this machine only")
        if self._accounts is None or (need is Need.READ and self._open_reads):
            return
        fields = command.fields()
        access_key = fields.get(ACCESS_KEY)
        if access_key is None:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "this name server takes signed requests only")
        account = self._accounts.get(access_key)
        if account is None or not is_signed_with(fields, command.body, account.secretKey):
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"unknown access key or wrong signature: {access_key}")
        if need not in account.may and Need.ADMIN not in account.may:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"{access_key} may not {need.value}")


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
