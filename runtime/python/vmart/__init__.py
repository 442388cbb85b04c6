"""Python's side of vmart. `vmart.lab` reads the results of the placement lab."""
