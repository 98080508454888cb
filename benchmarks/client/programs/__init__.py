"""One program for each client. They take commands from standard input and need nothing but their client."""
