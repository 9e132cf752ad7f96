"""`python -m genericjob.cli`: the same as the `genericjob` command."""

from .main import main

main()
