"""The consumer groups of this broker. Kept in `config/subscriptionGroup.json`."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from apogeemq.model.groups import SYSTEM_GROUPS, GroupConfig, group_problem
from apogeemq.model.routes import DataVersion
from apogeemq.protocol import javajson

log = logging.getLogger(__name__)


class GroupsFile(msgspec.Struct, rename="camel"):
    data_version: DataVersion = DataVersion()
    # Group -> topic -> bits of what it may not do there.
    forbidden_table: dict[str, dict[str, int]] = {}
    subscription_group_table: dict[str, GroupConfig] = {}


class GroupTable:
    def __init__(self, *, is_auto_creation_on: bool = True, max_groups: int = 100_000) -> None:
        self.groups = {name: GroupConfig(group_name=name) for name in SYSTEM_GROUPS}
        self.forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion()
        self.is_auto_creation_on = is_auto_creation_on
        self.on_change: Callable[[], None] = lambda: None
        self._max_groups = max_groups

    def get(self, group: str) -> GroupConfig | None:
        return self.groups.get(group)

    def find(self, group: str, now_ms: int) -> GroupConfig | None:
        """The group, made now if groups may be made by being used."""
        config = self.groups.get(group)
        if config is None and self.is_auto_creation_on and group_problem(group) is None:
            if len(self.groups) >= self._max_groups:
                log.warning("group %s is not created: there are %d already", group, self._max_groups)
                return None
            config = GroupConfig(group_name=group)
            self.put(config, now_ms)
        return config

    def put(self, config: GroupConfig, now_ms: int) -> None:
        """Create or replace."""
        self.put_all([config], now_ms)

    def put_all(self, configs: list[GroupConfig], now_ms: int) -> None:
        for config in configs:
            log.info("group %s: %s", "changed" if config.group_name in self.groups else "created", config)
            self.groups[config.group_name] = config
        self._changed(now_ms)

    def delete(self, group: str, now_ms: int) -> bool:
        self.forbidden.pop(group, None)
        if self.groups.pop(group, None) is None:
            return False
        log.info("group deleted: %s", group)
        self._changed(now_ms)
        return True

    def forbid(self, group: str, topic: str, bits: int, now_ms: int) -> None:
        if bits:
            self.forbidden.setdefault(group, {})[topic] = bits
        else:
            topics = self.forbidden.get(group, {})
            topics.pop(topic, None)
            if not topics:
                self.forbidden.pop(group, None)
        self._changed(now_ms)

    def _changed(self, now_ms: int) -> None:
        previous = self.data_version
        self.data_version = DataVersion(previous.counter + 1, previous.stateVersion, now_ms)
        self.on_change()

    # -- keeping ---------------------------------------------------------------------------------------------

    def load(self, content: bytes) -> None:
        """ProtocolError when it is not the file."""
        file = javajson.loads(content, GroupsFile)
        self.groups.update(file.subscription_group_table)
        for name, config in file.subscription_group_table.items():
            config.group_name = name
        self.forbidden = file.forbidden_table
        self.data_version = file.data_version

    def file(self) -> GroupsFile:
        return GroupsFile(self.data_version, self.forbidden, dict(sorted(self.groups.items())))

    def content(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self.file()), indent=2)
