"""The command as a program, for tests that need one without installing the project."""

from tiersnap.jobs.cli import main

main()
