"""The wire protocol: messages, services, conversion and typed answers. Only this room uses the generated code."""
