"""A package, so that fixtures can end with it: servers that idle take time from the tests that follow."""
