"""Every failure ApogeeMQ names, in one tree.

::

    ApogeeError
    ├── ConfigError            a setting is wrong (local misuse; names key, value and what was expected)
    │   ├── SettingFrozen      a setting that cannot be changed while the process runs
    │   └── PipelineInvalid    a pipeline file with errors, all of them, each with its line
    ├── PipelineFailed         a query of a running pipeline ended with an error
    ├── ProtocolError          bytes that are not the protocol (remote misuse; the connection is closed)
    ├── BadExpression          a subscription's expression cannot be understood
    ├── RequestRefused         a handler's answer to a request it will not serve: response code and remark
    ├── RemoteRefused          the peer answered our request with an error code
    ├── ConnectFailed          no connection could be made
    ├── ConnectionLost         the connection ended before the answer came
    ├── RequestTimedOut        no answer within the time given
    ├── TooManyRequests        a limit of our own on requests in flight was reached
    ├── NoNameServer           no name server address is known, or none answered
    ├── NoRoute                nobody serves the topic; `cause` says why
    ├── WrongState             a producer or consumer that is not started, or started twice (local misuse)
    ├── MessageIllegal         a message that no broker would take (local misuse)
    ├── OffsetIllegal          an offset that the queue does not have (local misuse)
    ├── DataLost               messages that were to be read are no longer there, or their queue is not
    ├── EventsLost             events of a route journal that were to be read are no longer there
    ├── SendFailed             a message was not taken, after every attempt that made sense
    ├── Superseded             another attempt at the same work has taken over; this one must write nothing more
    └── StorageFailed          a file of ours could not be written or read

``retriable`` says whether the same request may succeed later or elsewhere; ``refresh_routes`` whether the
caller's idea of who serves a topic is stale.
"""

from __future__ import annotations

from enum import Enum

# Codes after which another broker, or the same one later, may well say yes.
_RETRIABLE_CODES = frozenset((1, 2, 14, 16, 17, 204, 205, 215, 1500))
_STALE_ROUTE_CODES = frozenset((16, 17, 501))


class ApogeeError(Exception):
    """Root of the tree."""

    retriable: bool = False
    refresh_routes: bool = False


class ConfigError(ApogeeError):
    """A setting is wrong."""


class SettingFrozen(ConfigError):
    """A setting cannot be changed while the process runs."""


class PipelineInvalid(ConfigError):
    """A pipeline file has errors. `problems` are all that were found, each `file:line: sentence`."""

    def __init__(self, file: str, problems: list[str]) -> None:
        count = "an error" if len(problems) == 1 else f"{len(problems)} errors"
        super().__init__("\n  ".join([f"{file} has {count}:", *problems]))
        self.file = file
        self.problems = problems


class PipelineFailed(ApogeeError):
    """A query of a running pipeline ended with an error; what its last finished epoch wrote is kept."""


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
        self.retriable = code in _RETRIABLE_CODES
        self.refresh_routes = code in _STALE_ROUTE_CODES
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
    refresh_routes = True


class TooManyRequests(ApogeeError):
    """Our own limit on requests in flight was reached."""

    retriable = True


class NoNameServer(ApogeeError):
    """No name server is known, or none answered."""

    retriable = True


class RouteCause(Enum):
    """Why a topic has no route."""

    NO_NAME_SERVER = "no name server answered"
    NO_BROKER = "no broker is registered"
    NO_AUTO_CREATION = "the topic does not exist and no broker makes it by itself"
    NOT_YET = "the topic does not exist yet, or not everywhere"
    NO_MASTER = "the brokers of the topic have no master"
    NOT_WRITABLE = "the brokers of the topic may not be written to"
    NOT_READABLE = "no queue of the topic may be read"
    BROKER_UNKNOWN = "no route names the broker"


class NoRoute(ApogeeError):
    """Nobody serves the topic; `cause` is which of the possible reasons it is, the message tells the details."""

    retriable = True
    refresh_routes = True

    def __init__(self, message: str, cause: RouteCause = RouteCause.BROKER_UNKNOWN) -> None:
        super().__init__(message)
        self.cause = cause


class WrongState(ApogeeError):
    """A producer or consumer is used before its start, after its end, or started twice."""


class MessageIllegal(ApogeeError):
    """A message that no broker would take; nothing was sent."""


class OffsetIllegal(ApogeeError):
    """An offset that the queue does not have."""


class DataLost(ApogeeError):
    """Messages of a queue that were to be read are no longer there: those from `start` to before `end`, or all from
    `start` on."""

    def __init__(self, topic: str, broker: str, queue_id: int, start: int, end: int | None, why: str) -> None:
        lost = f"messages from {start} on" if end is None else f"messages {start} to {end - 1}"
        super().__init__(f"{lost} of topic {topic}, broker {broker}, queue {queue_id} are lost: {why}")
        self.topic = topic
        self.broker = broker
        self.queue_id = queue_id
        self.start = start
        self.end = end
        self.why = why

    def __reduce__(self) -> tuple[type[DataLost], tuple[str, str, int, int, int | None, str]]:
        return type(self), (self.topic, self.broker, self.queue_id, self.start, self.end, self.why)


class EventsLost(ApogeeError):
    """Events of a name server's route journal that were to be read are no longer there."""


class SendFailed(ApogeeError):
    """A message was not taken. `attempts` are the failures, in order; it may still have been stored by one of them."""

    def __init__(self, message: str, attempts: list[ApogeeError]) -> None:
        super().__init__(message)
        self.attempts = attempts
        self.retriable = any(attempt.retriable for attempt in attempts)
        self.refresh_routes = any(attempt.refresh_routes for attempt in attempts)


class Superseded(ApogeeError):
    """Another attempt at the same work has taken over."""


class StorageFailed(ApogeeError):
    """A file of ours could not be written or read."""
