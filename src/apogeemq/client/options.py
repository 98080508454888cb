"""What a client can be told; one table in the docs maps Apache's names (ClientConfig, DefaultMQProducer …) to these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from apogeemq.model.topics import AUTO_CREATE_TOPIC
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.compression import ZLIB

MIB: Final = 1024 * 1024

# As Apache's clients: the broker is busy or going away, or does not have what another may have.
RETRY_CODES: Final = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    )
)


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Shared by producers and consumers. Those with equal options use the same connections."""

    # Part of the client id; without one, the process and a number that is never given twice.
    instance_name: str = ""
    # The address other parties see in the client id; without one, this machine's.
    client_ip: str = ""
    unit_name: str = ""
    # Put before the names of topics and groups: tenants of one cluster do not see each other's.
    namespace: str = ""
    # Keys for servers that check signatures; without them, APOGEE_ACCESS_KEY and APOGEE_SECRET_KEY of the environment.
    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""
    # Keys `tls.*` of Apache's tls.properties; `tls.enable=true` turns TLS on.
    tls: Mapping[str, str] = {}
    # From the address a route names to the one to connect to: for clients outside a container network.
    address_map: Mapping[str, str] = {}
    # Calls go to the broker's second port, two below the first.
    uses_vip_channel: bool = False
    request_timeout_seconds: float = 3.0
    connect_timeout_seconds: float = 3.0
    # How long the kernel goes on with what a server does not acknowledge before it gives the connection up, where that
    # can be said (TCP_USER_TIMEOUT). 0: as the machine is set, a quarter of an hour. Otherwise a request to a
    # broker that times out or is cancelled also ends its connection, so that nothing of it leaves later.
    unacknowledged_seconds: float = 0.0
    route_poll_seconds: float = 30.0
    heartbeat_seconds: float = 30.0
    # A name server of ours tells of route changes at once; others are asked every `route_poll_seconds`.
    watches_routes: bool = True


class ProducerOptions(msgspec.Struct, frozen=True, kw_only=True):
    # For the whole of a send, with all its attempts.
    send_timeout_seconds: float = 3.0
    # For one attempt while another may follow, so that a silent broker does not take all the time. 0: all that is left.
    attempt_timeout_seconds: float = 0.0
    retries: int = 2
    # Answers of a broker after which another one is tried.
    retry_codes: frozenset[int] = RETRY_CODES
    # Also try another broker when one has stored the message but could not promise all it should.
    retries_when_not_ok: bool = False
    # Bodies of this size and more are compressed, unless that makes them longer. 0: never.
    compress_above: int = 4096
    compression: str = ZLIB
    compression_level: int = 5
    max_message_size: int = 4 * MIB
    # A topic that does not exist is made like this one, with at most so many queues.
    create_topic_key: str = AUTO_CREATE_TOPIC
    default_topic_queues: int = 4
    # Leave slow and failing brokers alone for a while.
    avoids_slow_brokers: bool = False
    # Ask those that failed, every so often and for so long, whether they are back; until then others are preferred.
    detects_brokers: bool = False
    detect_seconds: float = 2.0
    detect_timeout_seconds: float = 0.2
    # Messages and bytes of `send_soon` that may wait for their answer; then it waits itself.
    max_in_flight: int = 50_000
    max_bytes_in_flight: int = 256 * MIB
    # Put messages of `send_soon` together into batches: wait so long for more, up to so many bytes. 0: no batches.
    linger_seconds: float = 0.0
    batch_bytes: int = 32 * 1024
    # Messages of `send` that come while others wait for their answers share a request with those of the same moment.
    joins_sends: bool = False


class ConsumerOptions(msgspec.Struct, frozen=True, kw_only=True):
    # BROADCASTING: every member gets every message. Otherwise they share the queues.
    is_broadcasting: bool = False
    # Where a group that is new to a queue begins: "first", "last", or a time in ms.
    start_from: str | int = "last"
    # AVG, AVG_BY_CIRCLE or CONSISTENT_HASH.
    rebalance: str = "AVG"
    pull_batch: int = 32
    # Pulling from a queue pauses beyond these.
    max_cached_per_queue: int = 1000
    max_cached_bytes_per_queue: int = 100 * MIB
    max_span_per_queue: int = 2000
    # The same for all queues of a topic together, shared evenly. 0: no limit but those of each queue.
    max_cached_per_topic: int = 0
    max_cached_bytes_per_topic: int = 0
    # How often a message comes again before it is a dead letter. -1: 16 times; of an ordered group, without end.
    max_retries: int = -1
    # An ordered message that failed is tried again after so long, and its queue waits for it; 0.01 to 30.
    suspend_seconds: float = 1.0
    # A message the program has neither acknowledged nor returned by then is sent back. Ordered ones may take longer.
    consume_timeout_seconds: float = 15 * 60.0
    # At the end, handlers that are at work may take so long to finish; then they are cancelled.
    stop_grace_seconds: float = 5.0
    offset_persist_seconds: float = 5.0
    rebalance_seconds: float = 20.0
    suspend_ms: int = 15_000
    pull_timeout_seconds: float = 30.0
    # Folder of a broadcasting consumer's offsets; without one, ~/.rocketmq_offsets as Apache's clients.
    local_offset_dir: str = ""


class LitePullOptions(msgspec.Struct, frozen=True, kw_only=True):
    # BROADCASTING: every member gets every message. Otherwise they share the queues of what they subscribe to.
    is_broadcasting: bool = False
    # Where a group that is new to a queue begins: "first", "last", or a time in ms.
    start_from: str | int = "last"
    # AVG, AVG_BY_CIRCLE or CONSISTENT_HASH.
    rebalance: str = "AVG"
    pull_batch: int = 10
    # How long `poll` waits for messages when it is not told.
    poll_timeout_seconds: float = 5.0
    # Commit what earlier polls gave, every so often and at the end. Otherwise the program calls `commit`.
    auto_commit: bool = True
    auto_commit_seconds: float = 5.0
    # Pulling pauses beyond so many messages that were not polled yet: of all queues together,
    max_cached: int = 10_000
    # and of each.
    max_cached_per_queue: int = 1000
    max_cached_bytes_per_queue: int = 100 * MIB
    max_span_per_queue: int = 2000
    rebalance_seconds: float = 20.0
    suspend_ms: int = 20_000
    pull_timeout_seconds: float = 30.0
    # Folder of a broadcasting consumer's offsets; without one, ~/.rocketmq_offsets as Apache's clients.
    local_offset_dir: str = ""


class PullOptions(msgspec.Struct, frozen=True, kw_only=True):
    # Whether brokers know it as a member of its group. It reads what it is told to either way; as a member, it counts
    # when consumers that share queues by themselves divide them.
    joins_group: bool = True
    pull_timeout_seconds: float = 10.0
    max_retries: int = 16
