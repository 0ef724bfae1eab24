"""Reports of simulations: statistics, pictures and the HTML page."""
