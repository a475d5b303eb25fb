"""The entry point of the command: Ctrl-C during the imports ends the process without a traceback."""

import signal


def main() -> None:
    """Run the command. During the imports Ctrl-C ends the process; then `jobs.cli.interrupts` handles signals."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tiersnap.jobs.main import main as run_command

    run_command()
