"""Headers of requests to and from a name server. Field names are the wire's."""

from __future__ import annotations

import msgspec

from apogeemq.protocol.command import Int32, Int64
from apogeemq.protocol.fields import HeaderReader

ZONE_NAME = "__ZONE_NAME"
ZONE_MODE = "__ZONE_MODE"


class RegisterBroker(msgspec.Struct):
    brokerName: str
    brokerAddr: str
    clusterName: str
    brokerId: Int64
    haServerAddr: str | None = None
    heartbeatTimeoutMillis: Int64 | None = None
    enableActingMaster: bool | None = None
    compressed: bool = False
    bodyCrc32: Int32 = 0
    zone: str | None = msgspec.field(default=None, name=ZONE_NAME)


class RegisterBrokerReply(msgspec.Struct):
    haServerAddr: str | None = None
    masterAddr: str | None = None


class BrokerIdentity(msgspec.Struct):
    """UNREGISTER_BROKER and QUERY_DATA_VERSION."""

    brokerName: str
    brokerAddr: str
    clusterName: str
    brokerId: Int64 = 0


class BrokerHeartbeat(msgspec.Struct):
    clusterName: str
    brokerAddr: str
    brokerName: str


class GetRouteInfo(msgspec.Struct, gc=False):
    topic: str | None = None  # Apache looks for the topic "null" rather than complain
    acceptStandardJsonOnly: bool = False
    zone: str | None = msgspec.field(default=None, name=ZONE_NAME)
    zone_mode: str | None = msgspec.field(default=None, name=ZONE_MODE)


class TopicOnly(msgspec.Struct):
    topic: str


class DeleteTopic(msgspec.Struct):
    topic: str
    clusterName: str | None = None


class BrokerNameOnly(msgspec.Struct):
    brokerName: str


class BrokerMemberGroup(msgspec.Struct):
    clusterName: str
    brokerName: str


class ClusterOnly(msgspec.Struct):
    cluster: str


class KvKey(msgspec.Struct):
    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class KvNamespace(msgspec.Struct):
    namespace: str | None = None


class NotifyMinBrokerIdChange(msgspec.Struct):
    minBrokerId: Int64 | None = None
    brokerName: str | None = None
    minBrokerAddr: str | None = None
    offlineBrokerAddr: str | None = None
    haBrokerAddr: str | None = None


class WatchRoutes(msgspec.Struct):
    timeoutMillis: Int64 = 30_000


class ReadJournal(msgspec.Struct):
    fromSequence: Int64 = 1
    maxLines: Int32 = 1000


read_register_broker = HeaderReader(RegisterBroker)
read_broker_identity = HeaderReader(BrokerIdentity)
read_broker_heartbeat = HeaderReader(BrokerHeartbeat)
read_get_route_info = HeaderReader(GetRouteInfo)
read_topic_only = HeaderReader(TopicOnly)
read_delete_topic = HeaderReader(DeleteTopic)
read_broker_name = HeaderReader(BrokerNameOnly)
read_broker_member_group = HeaderReader(BrokerMemberGroup)
read_cluster_only = HeaderReader(ClusterOnly)
read_kv_key = HeaderReader(KvKey)
read_kv_namespace = HeaderReader(KvNamespace)
read_notify_min_broker_id = HeaderReader(NotifyMinBrokerIdChange)
read_watch_routes = HeaderReader(WatchRoutes)
read_read_journal = HeaderReader(ReadJournal)
