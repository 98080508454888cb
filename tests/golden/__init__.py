"""Bytes that real Apache RocketMQ peers sent, kept in the tree, and what ours makes of them.

`frames/PEER/`    requests as Apache's own classes encode them (`java/`) and as a real broker sent them
`answers/PEER/`   what Apache's name servers answered, step by step, to the requests of `scenarios/`
`capture.py`      takes all of it again from the real peers and shows any difference (`make golden`)

Every file names its peer and version, and is text: see `files.py`.
"""
