"""Options, option types, settings, output and text that several commands share."""
