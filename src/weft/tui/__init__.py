"""The screen of `weft top` and `weft sim --watch`. Only those two commands import it: Textual costs 0.3 s."""
