"""The broker's fixed script, what Apache's brokers answered to it, and the rules by which ours is held to that.

`scenarios/`      what is asked, as data
`answers/PEER/`   what Apache's broker answered, step by step, with what differs in every run masked (`masks.py`)
`replay.py`       puts a scenario to any broker
`capture.py`      asks the real peers again (`make golden`)
"""
