"""Fetch Apache RocketMQ's jars ahead of the tests, so that no test waits for a download."""

from tests.peers import apache

for version in apache.VERSIONS:
    print(f"==> Apache RocketMQ {version}: resolving the jars with Maven (half a minute the first time)", flush=True)
    try:
        apache.resolve(version)
    except apache.PeersUnavailable as unavailable:
        print(f"==> {unavailable}: the tests that need it will be skipped", flush=True)
