"""Pulls from templates are the bytes that any other request would be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.protocol.codec import encode_request
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers.broker import PULL_LITE, PullMessage
from apogeemq.protocol.pull_requests import encode_pull, pull_code

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
HEADERS = st.builds(
    PullMessage,
    *(TEXTS, TEXTS, INT32, INT64, INT32, INT32, INT64, INT64, INT64),
    *(st.none() | TEXTS, st.none() | TEXTS, st.none() | INT32, st.none() | TEXTS),
)


@given(HEADERS, INT32)
def test_as_any_other_request(header: PullMessage, opaque: int) -> None:
    expected = encode_request(pull_code(header), opaque, write_fields(header))
    assert encode_pull(header, opaque) == expected


@pytest.mark.parametrize("name", ['%d"', '"queueOffset":"%d"', "-9223372036854775808"])
def test_names_that_look_like_parts_of_a_template(name: str) -> None:
    header = PullMessage(name, name, 1, 2, 3, 4, 5, subscription=name, broker_name=name)
    assert encode_pull(header, 7) == encode_request(RequestCode.PULL_MESSAGE, 7, write_fields(header))


def test_lite_pulls_have_a_code_of_their_own() -> None:
    assert pull_code(PullMessage("G", "T", 0, 0, 32, PULL_LITE)) == RequestCode.LITE_PULL_MESSAGE
    assert pull_code(PullMessage("G", "T", 0, 0, 32, ~PULL_LITE)) == RequestCode.PULL_MESSAGE


def test_a_header_that_fits_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit a frame"):
        encode_pull(PullMessage("G", "T" * 2**24, 0, 0, 32, 0), 1)
