"""Tables, pictures and pages made of figures."""
