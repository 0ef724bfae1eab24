"""Parts that all pages over HTTP share: the socket that listens, and the check of readers."""
