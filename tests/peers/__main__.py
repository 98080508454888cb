"""Fetch Apache RocketMQ's jars and its Go client ahead of the tests, so that no test waits for a download."""

from tests.peers import apache, golang

for version in apache.VERSIONS:
    print(f"==> Apache RocketMQ {version}: resolving the jars with Maven (half a minute the first time)", flush=True)
    try:
        apache.resolve(version)
    except apache.PeersUnavailable as unavailable:
        print(f"==> {unavailable}: the tests that need it will be skipped", flush=True)

print("==> the Go client: building it (a minute the first time)", flush=True)
try:
    golang.resolve()
except golang.GoUnavailable as unavailable:
    print(f"==> {unavailable}: the tests that need it will be skipped", flush=True)
