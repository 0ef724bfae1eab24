"""Widgets that draw the lines of `weft.tui.model`. Each draws only the lines that are visible."""
