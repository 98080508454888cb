"""Sockets: servers, connections and client pools that carry commands."""
