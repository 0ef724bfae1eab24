"""One module per kind of target. Each sends one message, and raises `NotDelivered` if that fails."""
