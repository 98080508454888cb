"""The processes the tests and benchmarks talk to: real Apache RocketMQ servers and tools, and our own servers.

`apache`   name server, broker, a warm `mqadmin` and small Java programs, from jars that Maven resolves
`java_client`  producers and consumers of Apache's Java client, many in one warm JVM
`golang`   a program that uses the real Go client, built from tests/peers/go
`ours`     our servers, started as a user would start them
`netns`    a network namespace of the test's own, for peers that insist on listening on all addresses
`process`  what they share: start, wait for the boot line, stop, kill
`python -m tests.peers` fetches the jars and builds the Go program ahead of time.
"""
