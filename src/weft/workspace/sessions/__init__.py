"""Sessions that show the tasks of a workspace: backends such as tmux, their tags, and what they display."""
