"""Every failure ApogeeMQ names, in one tree.

::

    ApogeeError
    ├── ConfigError            a setting is wrong (local misuse; names key, value and what was expected)
    │   └── SettingFrozen      a setting that cannot be changed while the process runs
    ├── ProtocolError          bytes that are not the protocol (remote misuse; the connection is closed)
    ├── BadExpression          a subscription's expression cannot be understood
    ├── RequestRefused         a handler's answer to a request it will not serve: response code and remark
    ├── RemoteRefused          the peer answered our request with an error code
    ├── ConnectFailed          no connection could be made
    ├── ConnectionLost         the connection ended before the answer came
    ├── RequestTimedOut        no answer within the time given
    ├── TooManyRequests        a limit of our own on requests in flight was reached
    ├── NoNameServer           no name server address is known, or none answered
    └── StorageFailed          a file of ours could not be written or read

``retriable`` says whether the same request may succeed later or elsewhere; ``refresh_routes`` whether the
caller's idea of who serves a topic is stale.
"""

from __future__ import annotations

from typing import ClassVar


class ApogeeError(Exception):
    """Root of the tree."""

    retriable: ClassVar[bool] = False
    refresh_routes: ClassVar[bool] = False


class ConfigError(ApogeeError):
    """A setting is wrong."""


class SettingFrozen(ConfigError):
    """A setting cannot be changed while the process runs."""


class ProtocolError(ApogeeError):
    """The peer sent bytes that are not the protocol."""


class BadExpression(ApogeeError):
    """A subscription's expression cannot be understood."""


class RequestRefused(ApogeeError):
    """A handler refuses a request; the connection answers it with this code and remark and lives on."""

    def __init__(self, code: int, remark: str | None = None, fields: dict[str, str] | None = None) -> None:
        super().__init__(f"code {code}: {remark}")
        self.code = code
        self.remark = remark
        self.fields = fields


class RemoteRefused(ApogeeError):
    """The peer answered with an error code."""

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        super().__init__(f"{address or 'peer'} answered code {code}: {(remark or 'no remark').strip()}")
        self.code = code
        self.remark = remark
        self.address = address


class ConnectFailed(ApogeeError):
    """No connection could be made."""

    retriable = True
    refresh_routes = True


class ConnectionLost(ApogeeError):
    """The connection ended before the answer came."""

    retriable = True
    refresh_routes = True


class RequestTimedOut(ApogeeError):
    """No answer within the time given."""

    retriable = True


class TooManyRequests(ApogeeError):
    """Our own limit on requests in flight was reached."""

    retriable = True


class NoNameServer(ApogeeError):
    """No name server is known, or none answered."""

    retriable = True


class StorageFailed(ApogeeError):
    """A file of ours could not be written or read."""
