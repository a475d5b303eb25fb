"""What a program may rely on: the shape of every command's JSON, as types, and the schemas made from them."""
