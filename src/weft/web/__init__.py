"""The web page: a process that follows a scheduler as other clients do, and serves pages to browsers."""
