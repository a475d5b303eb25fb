"""What commands show, one module a command: rows for programs, sentences for people. Nothing is decided here."""
