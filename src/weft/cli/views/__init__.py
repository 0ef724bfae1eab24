"""Terminal output of answers: tables, screens and reports, built from typed views."""
