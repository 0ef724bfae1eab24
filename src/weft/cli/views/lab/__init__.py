"""Tables of simulations and studies."""
