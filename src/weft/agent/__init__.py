"""`weft worker`: the process engine of one node behind the wire."""
