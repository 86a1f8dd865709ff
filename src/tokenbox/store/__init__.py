"""Everything that outlives a process: calls, sessions, keys, quotas, proofs, counts."""
