"""Access to calls: tokens, identities, certificates, and the interceptor that checks every call."""
