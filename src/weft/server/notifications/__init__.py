"""Messages to people about jobs and groups: which there are (pure), and their delivery next to the loop."""
