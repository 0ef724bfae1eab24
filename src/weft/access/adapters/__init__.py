"""Other libraries' ways to submit jobs, with Weft as the scheduler: submitit and Hydra.

Each module imports its library, which is not a dependency of Weft: the extra weft[sweeps] installs them. Hydra finds
its launcher in the package `hydra_plugins`.
"""
