"""The content of the screen: changes come in, lines of text with the names of styles go out. Pure."""
