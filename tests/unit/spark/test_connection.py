"""How processes of a job reach the cluster."""

from __future__ import annotations

import pickle

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.connection import Connection
from apogeemq.spark.options import OptionReader

SECRETS = {"accessKey": "me", "secretKey": "hush", "securityToken": "token"}


def read(**options: str) -> Connection:
    reader = OptionReader({"nameServer": "a:1", **{name.replace("_", "."): value for name, value in options.items()}})
    found = Connection.read(reader)
    reader.finish()
    return found


def test_the_name_server_is_enough() -> None:
    assert read() == Connection(name_server="a:1")


def test_everything_arrives_at_the_client() -> None:
    connection = read(
        **SECRETS,
        namespace="NS",
        tls_enable="true",
        TLS_client_TRUSTcertPath="/ca.pem",
        addressMap='{"b:2": "c:3"}',
        requestTimeoutMs="1500",
        connectTimeoutMs="250",
    )
    options = connection.client_options()
    assert (options.namespace, options.access_key, options.secret_key) == ("NS", "me", "hush")
    assert options.security_token == "token"
    assert options.tls == {"tls.enable": "true", "tls.client.trustCertPath": "/ca.pem"}
    assert options.address_map == {"b:2": "c:3"}
    assert (options.request_timeout_seconds, options.connect_timeout_seconds) == (1.5, 0.25)


def test_it_travels_and_equal_ones_are_one() -> None:
    one, other = read(**SECRETS), read(**SECRETS)
    assert pickle.loads(pickle.dumps(one)) == one
    assert len({one, other}) == 1
    assert one != read()


def test_its_text_shows_no_secrets() -> None:
    text = repr(read(**SECRETS, tls_enable="true", tls_client_keyPath="/k", tls_client_certPath="/c"))
    assert "me" in text
    assert "hush" not in text
    assert "token" not in text.replace("security_token=…", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accessKey": "a"}, "option accessKey needs secretKey"),
        ({"secretKey": "a"}, "option secretKey needs accessKey"),
        ({"securityToken": "a"}, "option securityToken needs accessKey and secretKey"),
        ({"tls_client_keyPath": "k", "tls_client_certPath": "c"}, "option tls.client.certPath needs tls.enable=true"),
        ({"tls_enable": "perhaps"}, "tls.enable is 'perhaps'"),
        ({"tls_server_mode": "enforcing"}, "unknown option tls.server.mode"),
        ({"addressMap": '{"a": 1}'}, "option addressMap"),
        ({"retries": "1001"}, "option retries"),
        ({"requestTimeoutMs": "0"}, "option requestTimeoutMs"),
        ({"nameServer": ""}, "option nameServer is missing"),
    ],
)
def test_what_cannot_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**options)


def test_pauses_double_up_to_a_limit() -> None:
    assert list(read(retries="4", retryDelayMs="1000").retry_delays()) == [1, 2, 4, 5]
    assert list(read(retries="2", retryDelayMs="9000").retry_delays()) == [9, 9]
    assert list(read(retries="0").retry_delays()) == []
