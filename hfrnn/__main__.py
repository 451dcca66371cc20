"""`python -m hfrnn`."""

from hfrnn.cli import main

main(prog_name="hfrnn")
