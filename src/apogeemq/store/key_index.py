"""The key index: from a topic and a key to the messages that carry it.

Files named by their creation time, `layout.INDEX_*`: slots by the key's hash hold the newest item, items are chained to
older ones of the same slot. Only hashes are kept, so whoever asks must look at the messages found. Derived from the
commit log; what is missing is built again from there. One writer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from apogeemq.errors import StorageFailed
from apogeemq.store.index_file import IndexFile
from apogeemq.store.key_hash import TopicKeys
from apogeemq.store.layout import HASHED_KEY_SIZE
from apogeemq.store.mapped_file import MappedFile

log = logging.getLogger(__name__)


class KeyIndex:
    """All index files, oldest first."""

    def __init__(self, folder: Path, slot_count: int, item_count: int) -> None:
        self._folder = folder
        self._slot_count = slot_count
        self._item_count = item_count
        self.files: list[IndexFile] = []

    @property
    def end_offset(self) -> int:
        """Messages up to this physical offset are indexed."""
        return self.files[-1].end_offset if self.files else -1

    @property
    def end_time(self) -> int:
        return self.files[-1].end_time if self.files else 0

    def load(self) -> None:
        """As they were closed; after a crash, `repair` must follow."""
        if not self._folder.is_dir():
            return
        for path in sorted(path for path in self._folder.iterdir() if path.name.isdigit()):
            file = IndexFile(path, self._slot_count, self._item_count)
            try:
                file.load()
            except StorageFailed as error:  # made by other settings, or torn
                log.error("a file of the key index is given up: %s", error)
                file.delete()
                continue
            self.files.append(file)

    def repair(self, physical_offset: int) -> bool:
        """After a crash: keep what is known of messages before an offset, up to which everything was synced.

        False when even that is torn: what follows `end_offset` must be put again.
        """
        loaded, self.files, is_whole = self.files, [], True
        for file in loaded:
            if not is_whole or file.begin_offset >= physical_offset:
                file.delete()
                continue
            if not file.is_full or file.end_offset >= physical_offset:
                is_whole = file.repair(physical_offset)
            if file.is_empty:
                file.delete()
            else:
                self.files.append(file)
        return is_whole

    def cut(self, physical_offset: int) -> None:
        """Forget the messages from a physical offset on: the log does not have them any more."""
        while self.files and self.files[-1].begin_offset >= physical_offset:
            self.files.pop().delete()
        if self.files:
            self.files[-1].cut(physical_offset)

    def put(self, of_topic: TopicKeys, keys: Sequence[str], physical_offset: int, store_time: int) -> None:
        """Messages come in the order of the log. May raise OSError."""
        for key in keys:
            file = self.files[-1] if self.files else None
            if file is None or file.next_item >= self._item_count:
                file = self._next_file(store_time)
            file.put(of_topic.hash(key), physical_offset, store_time)

    def put_many(self, hashed_keys: bytes, store_time: int) -> None:
        """Keys of several messages, as `layout.HASHED_KEY` has them; all of one moment. May raise OSError."""
        done = 0
        while done < len(hashed_keys):
            file = self.files[-1] if self.files else None
            if file is None or file.next_item >= self._item_count:
                file = self._next_file(store_time)
            done += file.put_many(hashed_keys, done, store_time) * HASHED_KEY_SIZE

    def _next_file(self, store_time: int) -> IndexFile:
        moment = datetime.fromtimestamp(store_time / 1000)
        name = moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
        if self.files:
            self.files[-1].finish()
            name = max(name, str(int(self.files[-1].path.name) + 1))
        file = IndexFile(self._folder / name, self._slot_count, self._item_count)
        file.create()
        self.files.append(file)
        return file

    def find(self, topic: str, key: str, begin: int, end: int, most: int) -> list[int]:
        """Physical offsets that may hold the key, newest first."""
        hash_value = TopicKeys(topic).hash(key)
        found: list[int] = []
        for file in reversed(self.files):
            if file.begin_time > end:
                continue
            for offset in file.find(hash_value, begin, end):
                found.append(offset)
                if len(found) >= most:
                    return found
            if file.begin_time < begin:
                break
        return found

    def take_before(self, physical_offset: int) -> list[MappedFile]:
        """Let go of the files all of whose messages are before an offset, but never of the last; gives them."""
        count = 0
        while count < len(self.files) - 1 and self.files[count].end_offset < physical_offset:
            count += 1
        taken, self.files[:count] = [file.mapped for file in self.files[:count]], []
        return taken

    def sync(self) -> None:
        for file in list(self.files):
            file.sync()

    def close(self) -> None:
        for file in self.files:
            file.close()
