"""The command `tiersnap`: its commands by name, what they print, what they log, and the options they all take."""
