"""The decisions of the router (pure): which replica, who waits, what is sent again, which service, which headers."""
