"""What an error or a situation means: the tables of `models`, asked by name for one release or for all."""
