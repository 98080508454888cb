"""Our client beside Apache's and others, each in a process of its own."""
