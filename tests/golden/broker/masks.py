"""Makes two runs comparable: what differs in every run becomes a token, everything else stays.

The same rules are applied to Apache's answers and to ours, so a token stands for "something of this kind is here".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from apogeemq.protocol.record import Record, decode_record
from tests.golden.broker import dialect
from tests.golden.wire import Frame

WHAT = {
    "<now>": "a time during the run, in ms",
    "<broker>, <ha>, <vip>, <namesrv>": "addresses of this run's servers, as HOST:PORT",
    "<at N>": "a place in the commit log; the same place has the same number",
    "<id N>": "the offset message id of the record at place N",
    "<unique key>": "a key that the broker made up",
    "<work>": "the folder of this run",
    "<rate>": "messages a second",
    "<count>": "how often a table was changed since the broker first started, or messages in a sampled time",
    "<delay>": "how long ago something was, in ms",
    "language, version, serializeTypeCurrentRPC": "left out: each server names its own",
    "…TimeStampStr": "left out: the numbers beside them once more, for people",
}

NO_REMARK = "not set any response code"  # what Apache's answers say where nobody wrote a remark
RUNTIME_INFO, GET_CONFIG = 28, 26
_TOKENS = {
    **dict.fromkeys(("topicPutTps", "consumeTps", "tps", "avgpt"), "<rate>"),
    **dict.fromkeys(("counter", "sum"), "<count>"),
    "delayTime": "<delay>",
}
_PLACES = {"indexLastUpdatePhyoffset", "physicOffset", "tranStateTableOffset"}
_ORDERED_LISTS = {"queueData"}
_TIME = re.compile(r"(?<![0-9A-Za-z])1[5-9]\d{11}(?![0-9A-Za-z])")
_COUNTER = re.compile(r'(?<="counter":)\d+')
_UNIQUE_KEY = re.compile(r"(?<![0-9A-Za-z])7F000001[0-9A-F]{24}(?![0-9A-Za-z])")
_MAGIC = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab")
_WINDOW_MS = 600_000


@dataclass
class Masks:
    """The rules of one run."""

    port: int
    namesrv_port: int
    began_ms: int
    work_dir: str
    connections: dict[int, str] = field(default_factory=dict)
    """Local port → the connection's name."""
    _places: dict[int, int] = field(default_factory=dict)

    def answer(self, frame: Frame, code: int, *, brief: bool = False) -> dict[str, Any]:
        """An answer (or a request the broker sent) to a request with `code`, as it is kept."""
        header = frame.fields()
        kept: dict[str, Any] = {"code": header["code"], "flag": header["flag"]}
        remark = header.get("remark")
        if remark and remark != NO_REMARK:
            kept["remark"] = self.text(remark)
        fields = header.get("extFields") or {}
        kept["fields"] = {name: self._field(name, value) for name, value in sorted(fields.items())}
        if frame.body:
            kept["body"] = _brief(frame.body) if brief else self._body(frame.body, code)
        return kept

    def text(self, text: str) -> str:
        text = _COUNTER.sub("<count>", text.replace(self.work_dir, "<work>"))
        text = _TIME.sub(lambda match: "<now>" if self._is_now(int(match[0])) else match[0], text)
        text = re.sub(r"127\.0\.0\.1:(\d+)", lambda match: self._address(int(match[1])) or match[0], text)
        return _UNIQUE_KEY.sub(lambda match: self._message_id(match[0]), text)

    def _field(self, name: str, value: str) -> str:
        if name in _PLACES and value not in ("0", "-1"):
            return self._place(int(value))
        return self.text(value)

    def _is_now(self, value: int) -> bool:
        return self.began_ms - _WINDOW_MS < value < self.began_ms + 2 * _WINDOW_MS

    def _address(self, port: int) -> str | None:
        near = {0: "<broker>", 1: "<ha>", -2: "<vip>"}.get(port - self.port)
        return near or ("<namesrv>" if port == self.namesrv_port else self._connection(port))

    def _connection(self, port: int) -> str | None:
        name = self.connections.get(port)
        return f"<connection {name}>" if name else None

    def _message_id(self, text: str) -> str:
        if int(text[8:16], 16) == self.port:
            return self._place(int(text[16:], 16)).replace("at", "id")
        return "<unique key>"

    def _place(self, offset: int) -> str:
        return f"<at {self._places.setdefault(offset, len(self._places))}>"

    def _body(self, body: bytes, code: int) -> Any:
        if body[4:8] in _MAGIC:
            return {"records": [self.record(record) for record in records_of(body)]}
        text = body.decode()
        if code == GET_CONFIG:
            return self._kinds(dict(line.split("=", 1) for line in text.splitlines()))
        if not text.startswith(("{", "[")):
            return self.text(text)
        value = dialect.loads(text)
        return {"table": self._kinds(value["table"])} if code == RUNTIME_INFO else self._value(value)

    def _value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            kept = sorted((key, item) for key, item in value.items() if not key.endswith("TimeStampStr"))
            return {self.text(key): self._value(item, key) for key, item in kept}
        if isinstance(value, list):
            items = [self._value(item) for item in value]
            return items if name in _ORDERED_LISTS else sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        if name in _TOKENS:
            return _TOKENS[name]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if name in _PLACES:
                return self._place(value)
            return "<now>" if self._is_now(value) else value
        return value

    def _kinds(self, table: dict[str, str]) -> dict[str, str]:
        """What kind of value each key has: what the values are is each broker's own affair."""
        return {self.text(key): _kind(value) for key, value in sorted(table.items())}

    def record(self, record: Record) -> dict[str, Any]:
        """A stored message, all of it."""
        return {
            "size": record.size,
            "magic": f"{record.magic:08x}",
            "bodyCrc": record.body_crc,
            "queueId": record.queue_id,
            "flag": record.flag,
            "queueOffset": record.queue_offset,
            "physicalOffset": self._place(record.physical_offset),
            "sysFlag": record.system_flag,
            "bornTime": self._value(record.born_time),
            "bornHost": self._host(record.born_host),
            "storeTime": self._value(record.store_time),
            "storeHost": self._host(record.store_host),
            "reconsumeTimes": record.reconsume_times,
            "preparedOffset": record.prepared_offset,
            "body": _short(record.body),
            "topic": record.topic.decode(),
            "properties": self._properties(record.properties.decode()),
        }

    def _host(self, host: bytes) -> str:
        address = ".".join(map(str, host[:-4])) if len(host) == 8 else host[:-4].hex(":")
        return self.text(f"{address}:{int.from_bytes(host[-4:])}")

    def _properties(self, text: str) -> dict[str, str]:
        """With the last separator shown when it is missing."""
        pairs = (entry.partition("\x01") for entry in text.split("\x02"))
        found = {name + ("" if mark else " (no value)"): self.text(value) for name, mark, value in pairs if name}
        return dict(sorted(found.items())) | ({} if text.endswith("\x02") or not text else {"(not closed)": ""})


def records_of(data: bytes) -> list[Record]:
    """The records of a pull's body."""
    found = []
    at = 0
    while at < len(data):
        found.append(decode_record(data, at))
        at += found[-1].size
    return found


def _brief(body: bytes) -> dict[str, Any]:
    records = records_of(body)
    return {"count": len(records), "bytes": len(body), "queueOffsets": [record.queue_offset for record in records]}


def _short(data: bytes) -> str:
    return repr(data)[2:-1] if len(data) <= 200 else f"{len(data)} bytes"


def _kind(value: str) -> str:
    if value in ("true", "false"):
        return "boolean"
    if re.fullmatch(r"-?\d+", value):
        return "whole number"
    if re.fullmatch(r"-?\d+\.\d+(E-?\d+)?", value):
        return "number"
    if re.fullmatch(r"(-?\d+(\.\d+)?(E-?\d+)? ?){2,}|  +", value):  # blanks: Apache has not measured yet
        return "numbers"
    return "text" if value else "nothing"
