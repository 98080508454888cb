"""How much may be on its way."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.client.producing.window import Window
from tests.unit.event_loop import in_loop


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@in_loop
async def test_there_is_room_for_so_many() -> None:
    window = Window(2, 1000)
    await window.enter(1)
    await window.enter(1)
    third = asyncio.ensure_future(window.enter(1))
    await turns()
    assert not third.done()
    window.leave(1)
    await third
    assert (window.count, window.size) == (2, 2)


@in_loop
async def test_there_is_room_for_so_many_bytes() -> None:
    window = Window(10, 100)
    await window.enter(60)
    await window.enter(40)
    more = asyncio.ensure_future(window.enter(1))
    await turns()
    assert not more.done()
    window.leave(40)
    await more


@in_loop
async def test_what_is_larger_than_the_window_goes_alone() -> None:
    window = Window(10, 100)
    await window.enter(5000)
    small = asyncio.ensure_future(window.enter(1))
    large = asyncio.ensure_future(window.enter(5000))
    await turns()
    assert not small.done()
    window.leave(5000)
    await small
    assert not large.done()
    window.leave(1)
    await large
    window.leave(5000)
    assert (window.count, window.size) == (0, 0)


@in_loop
async def test_nobody_overtakes() -> None:
    window = Window(10, 100)
    await window.enter(90)
    order: list[str] = []

    async def go(name: str, size: int) -> None:
        await window.enter(size)
        order.append(name)

    waiting = [asyncio.ensure_future(go(name, size)) for name, size in (("large", 50), ("small", 1))]
    await turns()
    assert order == []
    window.leave(90)
    await asyncio.gather(*waiting)
    assert order == ["large", "small"]


@in_loop
async def test_who_gives_up_holds_nobody_up() -> None:
    window = Window(10, 100)
    await window.enter(90)
    large, small = asyncio.ensure_future(window.enter(50)), asyncio.ensure_future(window.enter(10))
    await turns()
    large.cancel()
    await small
    assert (window.count, window.size) == (2, 100)
    assert not window._waiting


@in_loop
async def test_who_gives_up_when_let_in_makes_room_again() -> None:
    window = Window(1, 100)
    await window.enter(1)
    first, second = asyncio.ensure_future(window.enter(1)), asyncio.ensure_future(window.enter(1))
    await turns()
    window.leave(1)
    first.cancel()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first
    assert window.count == 1


@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["stays", "leaves", "gives up"])), max_size=30),
    st.integers(1, 4),
    st.integers(1, 100),
)
def test_the_limits_hold_and_everybody_gets_in(plan: list[tuple[int, str]], count: int, size: int) -> None:
    async def run() -> None:
        window = Window(count, size)
        peak: list[tuple[int, int]] = []

        async def go(own: int, fate: str) -> None:
            await window.enter(own)
            peak.append((window.count, window.size))
            if fate == "stays":
                await turns(2)
            window.leave(own)

        tasks = [asyncio.ensure_future(go(*entry)) for entry in plan]
        await asyncio.sleep(0)
        for task, (_, fate) in zip(tasks, plan, strict=True):
            if fate == "gives up":
                task.cancel()
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (window.count, window.size, len(window._waiting)) == (0, 0, 0)
        assert all(many <= count and (large <= size or many == 1) for many, large in peak)

    asyncio.run(run())
