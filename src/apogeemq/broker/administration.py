"""Which handlers administrators are answered by."""

from __future__ import annotations

from apogeemq.broker.figures.runtime_info import RuntimeParts
from apogeemq.broker.handlers.admin_consumers import ConsumeStatusHandlers
from apogeemq.broker.handlers.admin_groups import GroupHandlers
from apogeemq.broker.handlers.admin_offsets import OffsetAdminHandlers
from apogeemq.broker.handlers.admin_status import ConfigStore, StatusHandlers
from apogeemq.broker.handlers.admin_topic_status import TopicStatusHandlers
from apogeemq.broker.handlers.admin_topics import TopicHandlers
from apogeemq.broker.handlers.assignments import AssignmentHandlers, RouteSource
from apogeemq.transport.dispatch import Dispatcher


def install_administration(
    dispatcher: Dispatcher, parts: RuntimeParts, config_store: ConfigStore, routes: RouteSource
) -> None:
    state, windows = parts.state, parts.windows
    TopicHandlers(state).install(dispatcher)
    TopicStatusHandlers(state, windows).install(dispatcher)
    GroupHandlers(state).install(dispatcher)
    ConsumeStatusHandlers(state, windows).install(dispatcher)
    OffsetAdminHandlers(state, parts.delay_offsets.content).install(dispatcher)
    AssignmentHandlers(state, routes).install(dispatcher)
    StatusHandlers(parts, config_store).install(dispatcher)
