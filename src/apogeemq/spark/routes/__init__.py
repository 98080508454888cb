"""Data source `rocketmq-routes`: the route journals of name servers."""
