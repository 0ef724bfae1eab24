"""The JSON that the page reads, and the changes that its buttons make."""
