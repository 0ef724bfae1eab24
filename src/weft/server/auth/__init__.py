"""Who may call: tokens, identities, certificates, and the interceptor that checks every call."""
