"""The situation: the known facts about a host, its cluster and its remote location, each with its source."""
