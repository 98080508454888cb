"""Requests to the name server, one family a module: decode, ask, encode."""
