"""Whether clients will be able to reach the address they are told: the commonest trouble of a first hour."""

from __future__ import annotations

from apogeemq.broker.config import BrokerConfig
from apogeemq.errors import ConfigError
from apogeemq.transport.addresses import parse_address, split_addresses
from apogeemq.transport.reachability import is_loopback, is_private, is_public, is_unroutable, is_unspecified

_REMEDY = "set --advertise HOST:PORT (or brokerIP1) to an address that clients can connect to"


def advertising_warning(host: str, config: BrokerConfig) -> str | None:
    """One sentence for a person when the advertised host cannot be right, or None."""
    if is_unspecified(host):
        return f"clients are told to connect to {host}, which is no address to connect to; {_REMEDY}"
    far = _far_name_servers(config)
    if not far:
        return None
    if is_unroutable(host):
        return (
            f"clients are told to connect to {host}, which other machines cannot reach, "
            f"but the name servers are elsewhere ({far[0]}); {_REMEDY}"
        )
    if is_private(host) and all(map(is_public, far)):
        return (
            f"clients are told to connect to {host}, an address of a private network, "
            f"but the name servers have public ones ({far[0]}); {_REMEDY}"
        )
    return None


def _far_name_servers(config: BrokerConfig) -> list[str]:
    """Hosts of name servers that are not on this machine, as far as their addresses tell."""
    hosts = []
    for part in split_addresses(config.namesrv_addr):
        try:
            hosts.append(parse_address(part)[0])
        except ConfigError:
            hosts.append(part)  # a URL, or a name for DNS
    if not hosts and config.fetch_namesrv_addr_by_address_server:
        hosts.append("an address server's")
    return [host for host in hosts if not is_loopback(host)]
