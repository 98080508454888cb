"""Version numbers on the wire: ordinals of Apache's MQVersion enum."""

from __future__ import annotations

V3_0_7_SNAPSHOT = 28
V3_0_11 = 37
V3_1_8_SNAPSHOT = 62
V3_4_9 = 121
V4_9_4 = 401
V5_0_0 = 413
V5_5_0 = 513

CURRENT = V5_5_0  # the release whose behaviour we speak
CURRENT_NAME = "V5_5_0"
