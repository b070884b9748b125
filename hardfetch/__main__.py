"""`python -m hardfetch` is the command line."""

from hardfetch.cli import main

main()
