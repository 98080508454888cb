"""Frames that came before are answered without being taken apart, and only those."""

from __future__ import annotations

from apogeemq.protocol.codec import encode_frame, encode_ok, encode_request
from apogeemq.protocol.command import BINARY, Command, CommandHead, Shortcut
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Reply
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import Line

LOOK_UP = 500


class Library:
    """A handler whose answer is a look-up, and a count of how often it was asked itself."""

    def __init__(self) -> None:
        self.texts = {"T1": b"one", "T2": b"two"}
        self.asked = 0

    def __call__(self, channel: Channel, command: Command) -> Reply:
        self.asked += 1
        topic = command.fields().get("topic", "")
        command.shortcut = Shortcut((self.texts.get, topic))
        return encode_ok(command, self.texts.get(topic, b"nothing"))


def library_line() -> tuple[Line, Library]:
    line, library = Line(), Library()
    line.server.dispatcher.register(LOOK_UP, library)
    return line, library


def question(opaque: int, topic: str = "T1", *, codec: int = 0, one_way: bool = False) -> bytes:
    return encode_request(LOOK_UP, opaque, {"topic": topic}, codec=codec, one_way=one_way)


def answers(line: Line, *frames: bytes) -> list[tuple[int, bytes]]:
    line.feed(*frames)
    return [(answer.opaque, answer.body) for answer in line.transport.answers()]


@in_loop
async def test_the_same_question_again_goes_straight_to_the_look_up() -> None:
    line, library = library_line()
    assert answers(line, question(1), question(2), question(345), question(6, "T2")) == [
        (1, b"one"),
        (2, b"one"),
        (345, b"one"),
        (6, b"two"),
    ]
    # Once for each topic, and once for each length of the number, which is part of the frame's mark.
    assert library.asked == 3
    assert line.server.dispatcher.request_counts[LOOK_UP] == 4


@in_loop
async def test_the_answer_is_the_same_as_the_handlers() -> None:
    line, _ = library_line()
    line.feed(question(1))
    (slow,) = line.transport.writes
    line.transport.writes.clear()
    line.feed(question(1))
    assert line.transport.writes == [slow]


@in_loop
async def test_what_changed_is_answered_changed_and_what_is_gone_by_the_handler() -> None:
    line, library = library_line()
    assert answers(line, question(1)) == [(1, b"one")]
    library.texts["T1"] = b"new"
    assert answers(line, question(2)) == [(2, b"new")]
    assert library.asked == 1
    del library.texts["T1"]
    assert answers(line, question(3)) == [(3, b"nothing")]
    assert library.asked == 2


@in_loop
async def test_hooks_see_every_request() -> None:
    line, library = library_line()
    answers(line, question(1))
    line.server.dispatcher.before.append(lambda channel, command: None)
    answers(line, question(2))
    assert library.asked == 2


@in_loop
async def test_a_server_that_is_going_away_takes_none() -> None:
    line, _ = library_line()
    answers(line, question(1))
    line.server.dispatcher.is_going_away = True
    line.feed(question(2))
    assert [answer.code for answer in line.transport.answers()] == [1500]


@in_loop
async def test_a_peer_that_does_not_read_gets_none() -> None:
    line, _ = library_line()
    answers(line, question(1))
    line.channel.pause_writing()
    line.transport.queued_size = 2**30
    line.feed(question(2))
    assert [answer.code for answer in line.transport.answers()] == [2]


@in_loop
async def test_only_where_the_number_is_beyond_doubt() -> None:
    line, library = library_line()
    head = CommandHead(LOOK_UP, 1)
    for frame in (
        question(1, codec=BINARY),
        question(-1),
        question(1, one_way=True),
        encode_frame(head, {"topic": "T1", "opaque": "7"}),  # the word stands twice
        encode_frame(head, {"topic": "T1"}, b'{"opaque":7,}'),
        encode_frame(head, {"topic": "T1"}, b"x" * 2000),  # long frames are not worth it
    ):
        before = library.asked
        line.feed(frame, frame)
        assert library.asked == before + 2, frame


@in_loop
async def test_a_response_is_never_taken_for_a_question() -> None:
    line, library = library_line()
    answers(line, question(1))
    line.feed(question(1).replace(b'"flag":0', b'"flag":1'))
    assert line.transport.writes == []
    assert library.asked == 1


@in_loop
async def test_a_number_that_is_none_takes_the_ordinary_way() -> None:
    line, _ = library_line()
    answers(line, question(1))
    line.feed(question(1).replace(b'"opaque":1', b'"opaque":x'))
    assert line.transport.is_closed


@in_loop
async def test_clients_that_differ_only_after_the_number_are_both_known() -> None:
    line, library = library_line()
    other = question(2).replace(b'"version":513', b'"version":401')
    assert other != question(2)
    assert answers(line, question(1), other, question(3), other, question(1)) == [
        (opaque, b"one") for opaque in (1, 2, 3, 2, 1)
    ]
    assert library.asked == 2


@in_loop
async def test_of_one_question_only_the_last_few_endings_are_kept() -> None:
    line, library = library_line()

    def of_version(version: int) -> bytes:
        return question(1).replace(b'"version":513', b'"version":%d' % version)

    line.feed(*(of_version(version) for version in range(100, 200)))
    assert library.asked == 100
    line.feed(*(of_version(version) for version in range(192, 200)))
    assert library.asked == 100
    line.feed(of_version(191))
    assert library.asked == 101


@in_loop
async def test_an_ending_may_be_the_end_of_another() -> None:
    line, library = library_line()
    short = question(1)
    number = short.index(b',"serializeTypeCurrentRPC"')
    text = short[8:number] + b',"remark":null' + short[number:]
    long = (4 + len(text)).to_bytes(4) + len(text).to_bytes(4) + text
    # The mark, which says how long the header is, is part of what stands before: here it must not tell them apart.
    shortcuts = line.server.dispatcher.shortcuts
    command, shortcut = Command(LOOK_UP, 1), Shortcut((library.texts.get, "T1"))
    shortcuts.learn(short[4:8] + short[8:], command, shortcut)
    shortcuts.learn(short[4:8] + text, command, shortcut)
    assert shortcuts.answer(short[4:8] + text) == shortcuts.answer(short[4:]) is not None
    assert answers(line, long) == [(1, b"one")]
