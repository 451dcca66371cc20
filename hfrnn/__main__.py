"""The program `hfrnn`, also `python -m hfrnn`: signals are handled from its start to the end of the process."""

from __future__ import annotations

import contextlib
import signal
import sys

from hfrnn.training.signals import Interruption, install


def main() -> None:
    """Run the command line and exit."""
    handled = install(Interruption())
    status: object = 1
    try:
        from hfrnn.cli import main as commands

        commands(prog_name="hfrnn")
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:  # during the import
        with contextlib.suppress(OSError):
            print("Error: interrupted", file=sys.stderr)
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_IGN)  # the status of an ending process is decided
    sys.exit(status)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
