"""How answers look on a terminal: tables, pages and reports, drawn from typed views."""
