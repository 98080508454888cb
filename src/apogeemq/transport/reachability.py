"""Who can reach an address, and an address of this machine that others can reach."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
from struct import Struct
from typing import Final

LOOPBACK: Final = "127.0.0.1"

_SIOCGIFADDR: Final = 0x8915  # Linux: an interface's IPv4 address
_INTERFACE_REQUEST = Struct("256s")
_ADDRESS_START, _ADDRESS_END = 20, 24  # within the answer
_ANY_REMOTE = ("192.0.2.1", 9)  # reserved for documentation; nothing is sent there


def local_address() -> str:
    """The source address of the way out, else the first interface's that is not the loopback, else the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ANY_REMOTE)  # of a datagram socket: chooses a route, sends nothing
            found = str(probe.getsockname()[0])
        except OSError:
            found = _first_interface_address(probe)
    return found


def _first_interface_address(probe: socket.socket) -> str:
    for _, name in socket.if_nameindex():
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, _INTERFACE_REQUEST.pack(name.encode()[:15]))
        except OSError:
            continue  # an interface without an IPv4 address
        address = socket.inet_ntoa(answer[_ADDRESS_START:_ADDRESS_END])
        if not address.startswith("127."):
            return address
    return LOOPBACK


def is_unspecified(host: str) -> bool:
    """Whether it stands for all addresses of a machine (0.0.0.0, ::, nothing): to listen on, not to connect to."""
    address = _number(host)
    return not host or (address is not None and address.is_unspecified)


def is_loopback(host: str) -> bool:
    """Whether only the machine itself reaches it."""
    address = _number(host)
    return address.is_loopback if address is not None else host == "localhost" or host.endswith(".localhost")


def is_unroutable(host: str) -> bool:
    """Whether no other machine can reach it, whatever its network: loopback, unspecified, link-local and the like."""
    address = _number(host)
    if address is None:
        return is_unspecified(host) or is_loopback(host)
    return (
        address.is_loopback
        or address.is_unspecified
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
    )


def is_private(host: str) -> bool:
    """Whether it is an address that only machines of the same network reach. A name is not known to be one."""
    address = _number(host)
    return address is not None and address.is_private


def is_public(host: str) -> bool:
    address = _number(host)
    return address is not None and address.is_global


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
