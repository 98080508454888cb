"""The fixed script: what is asked of every name server, as data."""

from __future__ import annotations

from tests.golden.scenarios import forms, groups, kv, registration, settings
from tests.golden.steps import Scenario

ALL: tuple[Scenario, ...] = (
    kv.KV,
    kv.ODDITIES,
    registration.EMPTY,
    registration.ONE_BROKER,
    forms.REFUSED,
    forms.HALF_TAKEN,
    forms.FORMATS,
    registration.CONNECTIONS,
    groups.SLAVES,
    groups.OLD_SLAVES,
    groups.ACTING_MASTER,
    groups.ACTING_MASTER_UNSUPPORTED,
    groups.ZONES,
    groups.UNITS,
    groups.NOTICES,
    settings.ORDER_CONF,
    settings.ORDER_CONF_OFF,
    settings.ORDER_CONF_NOT_RETURNED,
    settings.LISTS_DISABLED,
    settings.NOT_READY,
    settings.DELETE_WITH_REGISTRATION,
    settings.CONFIG,
    settings.NAMES,
    settings.STATIC_TOPICS,
    settings.FILTER_SERVERS,
)

BY_NAME = {scenario.name: scenario for scenario in ALL}
assert len(BY_NAME) == len(ALL), "two scenarios have one name"
