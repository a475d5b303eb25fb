"""Parts of the command line, and the entry point that pyproject.toml names."""

from __future__ import annotations


def main() -> None:
    """Run the command of sys.argv and exit with its code."""
    from tiersnap.jobs.main import main as run_command

    run_command()
