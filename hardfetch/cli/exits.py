"""Exit codes of the command line; users' scripts rely on them."""

from __future__ import annotations

OK = 0  # every input has its record, errors included
FAILED = 1  # the compiled core could not work, or an input not be read
USAGE = 2  # click's own code too
INTERRUPTED = 3  # SIGINT or SIGTERM
SINK = 4  # the output failed
