"""Small files beside a pipeline's data, on whatever file system Spark can reach: local, HDFS, object stores."""

from __future__ import annotations

import errno
import os
import uuid
from typing import TYPE_CHECKING, Any

from apogeemq.errors import StorageFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFolder:
    """One folder; names are relative to it, with slashes. Calls go to the JVM and block. Raises StorageFailed."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self.folder = folder.rstrip("/") or "/"
        self._root = self._path_of(self.folder)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._call(lambda: self._root.getFileSystem(configuration))

    @property
    def qualified(self) -> str:
        """Its whole address, whatever the current folder is."""
        return str(self._call(lambda: self._files.makeQualified(self._root).toString()))

    def read(self, name: str) -> bytes | None:
        """None when there is no such file."""
        path = self._path(name)
        if not self._call(lambda: self._files.exists(path)):
            return None
        stream = self._call(lambda: self._files.open(path))
        try:
            return bytes(self._call(stream.readAllBytes))
        finally:
            stream.close()

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that appears whole; False when there is one of this name, which stays as it is."""
        path, fresh = self._path(name), self._path(f"{name}.{uuid.uuid4().hex}.tmp")
        if self._call(lambda: self._files.exists(path)):
            return False
        self._write(fresh, data)
        is_made = self._give_name(fresh, path)
        self._call(lambda: self._files.delete(fresh, False))
        return is_made

    def _give_name(self, fresh: Any, path: Any) -> bool:
        """Local file systems rename over what is there, and only a link is refused: others refuse by themselves."""
        if self._files.getUri().getScheme() == "file":
            try:
                os.link(self._local(fresh), self._local(path))
                return True
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):  # there are no links here
                    raise StorageFailed(f"cannot write {path.toString()}: {error}") from None
        return bool(self._call(lambda: not self._files.exists(path) and self._files.rename(fresh, path)))

    def _local(self, path: Any) -> str:
        return str(self._files.makeQualified(path).toUri().getPath())

    def replace(self, name: str, data: bytes) -> None:
        """Write a file over what is there. A crash may leave it missing, with its content beside it in `.next`."""
        path, fresh = self._path(name), self._path(f"{name}.next")
        self._write(fresh, data)
        self._call(lambda: self._files.delete(path, False))
        if not self._call(lambda: self._files.rename(fresh, path)):
            raise StorageFailed(f"cannot write {path.toString()}")

    def exists(self, name: str) -> bool:
        path = self._path(name)
        return bool(self._call(lambda: self._files.exists(path)))

    def data_files(self, name: str) -> list[str]:
        """Files anywhere below, relative to `name`; not those that are, or lie in, what is hidden."""
        top = self._path(name)
        found: list[str] = []
        if not self._call(lambda: self._files.exists(top)):
            return found
        prefix = len(self._call(lambda: self._files.makeQualified(top).toString())) + 1
        waiting = self._call(lambda: self._files.listFiles(top, True))
        while self._call(waiting.hasNext):
            file = self._call(waiting.next).getPath().toString()[prefix:]
            if not any(map(_is_hidden, file.split("/"))):
                found.append(file)
        return sorted(found)

    def names(self, name: str) -> list[str]:
        """What is directly in a folder."""
        path = self._path(name)
        if not self._call(lambda: self._files.exists(path)):
            return []
        return sorted(status.getPath().getName() for status in self._call(lambda: self._files.listStatus(path)))

    def move(self, name: str, target: str) -> None:
        path, goal = self._path(name), self._path(target)
        self._call(lambda: self._files.mkdirs(goal.getParent()))
        if not self._call(lambda: self._files.rename(path, goal)):
            raise StorageFailed(f"cannot move {path.toString()} to {goal.toString()}")

    def delete(self, name: str) -> None:
        """A file, or a folder with all that is in it."""
        path = self._path(name)
        self._call(lambda: self._files.delete(path, True))

    def _path(self, name: str) -> Any:
        return self._path_of(self._root, name) if name else self._root

    def _write(self, path: Any, data: bytes) -> None:
        stream = self._call(lambda: self._files.create(path, True))
        try:
            self._call(lambda: stream.write(bytearray(data)))
            self._call(stream.hsync)
        finally:
            self._call(stream.close)

    def _call(self, call: Any) -> Any:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            return call()
        except Py4JJavaError as error:
            raise StorageFailed(f"{self.folder}: {error.java_exception.toString()}") from None


def _is_hidden(name: str) -> bool:
    """As Spark has it: a column of a partitioned table may begin with an underscore."""
    return name.startswith((".", "_")) and not (name.startswith("_") and "=" in name)
