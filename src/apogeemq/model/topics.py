"""Topics: permission bits, system flags, reserved names."""

from __future__ import annotations

PERM_INHERIT = 1
PERM_WRITE = 2
PERM_READ = 4
PERM_PRIORITY = 8
PERM_READ_WRITE = PERM_READ | PERM_WRITE

FLAG_UNIT = 1
FLAG_UNIT_SUB = 2

MASTER_ID = 0

# A route of such a topic is never rewritten for an acting master: slaves use it to find each other.
SYNC_BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"


def is_writable(perm: int) -> bool:
    return perm & PERM_WRITE != 0


def perm_text(perm: int) -> str:
    """`RW-` and the like, as people read permissions."""
    return "".join(
        letter if perm & bit else "-" for letter, bit in (("R", PERM_READ), ("W", PERM_WRITE), ("X", PERM_INHERIT))
    )
