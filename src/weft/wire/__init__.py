"""How everything outside the scheduler talks to it. The only room that knows the generated code."""
