"""Why a topic has no route: looked into when it matters, because the name server's own answer does not say."""

from __future__ import annotations

from apogeemq.errors import ApogeeError, NoRoute, RouteCause
from apogeemq.model.topics import AUTO_CREATE_TOPIC
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.routes import WireClusterInfo
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.transport.name_servers import NameServerClient
from apogeemq.transport.pool import ConnectionPool


async def registered_brokers(name_servers: NameServerClient) -> set[str]:
    """The names of all brokers a name server knows. Raises NoNameServer."""
    answer = await name_servers.request(RequestCode.GET_BROKER_CLUSTER_INFO)
    return set(javajson.loads(answer.body, WireClusterInfo).brokerAddrTable) if answer.body else set()


async def no_route(
    topic: str, pool: ConnectionPool, name_servers: NameServerClient, made_like: str | None = None
) -> NoRoute:
    """For a topic that the current name server does not know. `made_like` is the topic whose route would have done for
    whoever wants to send. Raises NoNameServer."""
    asked = name_servers.book.current or ""
    why, cause = await _reason(topic, pool, name_servers, asked, made_like)
    return NoRoute(f"no route of topic {topic}: {why}", cause)


async def _reason(
    topic: str, pool: ConnectionPool, name_servers: NameServerClient, asked: str, made_like: str | None
) -> tuple[str, RouteCause]:
    if not await registered_brokers(name_servers):
        return f"no broker is registered at the name server {asked}", RouteCause.NO_BROKER
    for other in name_servers.book.addresses:
        if other != asked and await _has_route(pool, other, topic):
            return f"the name server {other} knows it, but {asked} does not yet", RouteCause.NOT_YET
    if made_like is not None:
        return (
            "the topic does not exist, and no broker makes topics on the way "
            f"(no route of {made_like}: autoCreateTopicEnable is off); create it first",
            RouteCause.NO_AUTO_CREATION,
        )
    if await _has_route(pool, asked, AUTO_CREATE_TOPIC):
        return (
            "the topic does not exist yet: it is made by the first message to it, "
            "or its brokers have not told the name server of it",
            RouteCause.NOT_YET,
        )
    return (
        "the topic does not exist, or its brokers have not told the name server of it yet; "
        "it is not made by sending to it (autoCreateTopicEnable is off)",
        RouteCause.NO_AUTO_CREATION,
    )


async def _has_route(pool: ConnectionPool, address: str, topic: str) -> bool:
    try:
        answer = await pool.request(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    except ApogeeError:
        return False  # this is only about the words of an error
    return answer.code == ResponseCode.SUCCESS
