"""One client that takes nothing does not keep a notice from the others."""

from __future__ import annotations

from apogeemq.broker.notices import notify_ids_changed
from apogeemq.broker.tables.clients import IdsChanged
from apogeemq.protocol.codes import RequestCode
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import Line


@in_loop
async def test_clients_that_cannot_be_told() -> None:
    stuck, gone, well = Line(refuse_at=10), Line(), Line()
    stuck.transport.queued_size = 100
    stuck.channel.pause_writing()
    gone.lose()
    lines = (stuck, gone, well)
    notify_ids_changed([IdsChanged("G", [line.channel for line in lines])])
    assert stuck.transport.writes == []
    assert gone.transport.writes == []
    [notice] = well.transport.answers()
    assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert notice.is_one_way
    assert notice.fields() == {"consumerGroup": "G"}
