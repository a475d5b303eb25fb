"""The command as a program, for tests that need one without installing the project."""

from jobs.cli import main

main()
