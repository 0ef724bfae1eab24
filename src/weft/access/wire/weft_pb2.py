"""The messages as type checkers see them: the stub of this name, made by `make proto`. `messages` makes the classes."""
