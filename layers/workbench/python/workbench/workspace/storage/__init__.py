"""How a workspace is kept: manifests, heads and leases, working copies, history. The only part that calls AWS."""
