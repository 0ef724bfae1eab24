"""Where schedulers are and how to reach them: addresses, discovery, paths, configuration, credentials, TLS."""
