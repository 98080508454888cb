"""Filters of a query that a reader is handed by Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

from pyspark.sql.datasource import DataSourceReader, Filter

_Take = Callable[[list[Filter]], Iterable[Filter]]


class FilterTaker(DataSourceReader):
    """Takes filters where Spark hands them over, and reads everything where it does not.

    Spark refuses a reader that has a `pushFilters` of its own wherever its setting for them is off. That is the setting
    of whichever session is active in the thread that plans; where none is, it is off. So this one looks as if it had
    none of its own: whether it is called is the only thing that counts.
    """

    @abstractmethod
    def take_filters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Those are returned that Spark has to apply itself."""

    @property
    def pushFilters(self) -> _Taking:
        return _Taking(self.take_filters)


class _Taking:
    def __init__(self, take: _Take) -> None:
        self._take = take
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._take(filters)
