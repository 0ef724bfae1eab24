"""The models, one file per family: layers in plain torch, with the published parameter counts at full size."""
