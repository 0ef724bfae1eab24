"""Identity and permission: tokens, certificates, roles, and limits on failed attempts."""
