"""The command as a program, for tests that need one without installing the project."""

from tiersnap.jobs.command_line.cli import main

main()
