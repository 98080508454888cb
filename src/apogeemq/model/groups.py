"""Consumer groups: their settings on a broker, reserved names, and which names are allowed."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from apogeemq.model.topics import ALLOWED_CHARACTERS, MASTER_ID, has_allowed_characters

MAX_GROUP_LENGTH: Final = 120

# Groups every broker knows from its first start.
SYSTEM_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"


class GroupConfig(msgspec.Struct, rename="camel"):
    """What a broker keeps of a consumer group; the names are those of `subscriptionGroup.json` and of the wire."""

    attributes: dict[str, str] = {}
    broker_id: int = MASTER_ID
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    group_name: str = ""
    group_retry_policy: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "CUSTOMIZED"})
    group_sys_flag: int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1
    which_broker_when_consume_slowly: int = 1


def group_problem(group: str | None) -> str | None:
    """Why a group cannot have this name, in Apache's words; None if it can."""
    if not group or not group.strip():
        return "The specified group is blank."
    if not has_allowed_characters(group):
        return f"The specified group: {group}, contains illegal characters, allowing only {ALLOWED_CHARACTERS}"
    if len(group) > MAX_GROUP_LENGTH:
        return f"The specified group: {group}, is longer than group max length: {MAX_GROUP_LENGTH}"
    return None


def is_system_group(group: str) -> bool:
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)
