"""The command line: `hardfetch`, also as `python -m hardfetch`."""

from __future__ import annotations

import sys
from typing import NoReturn

from hardfetch.cli import early, exits


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    with early.Signals() as signals:
        try:
            from hardfetch.cli.group import run  # takes most of a start's time

            code = run(sys.argv[1:] if arguments is None else list(arguments))
        except BaseException as error:
            # Python makes another error of what is raised while a class is made.
            if not (signals.seen or isinstance(error, KeyboardInterrupt)):
                raise
            code = exits.INTERRUPTED
        signals.decided(code)
    sys.exit(code)
