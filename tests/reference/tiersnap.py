"""The command as a program, for tests that need one without installing the project."""

from tiersnap.jobs.main import main

main()
