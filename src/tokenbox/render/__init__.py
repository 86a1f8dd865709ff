"""Decisions made visible. It takes decisions, and never makes one."""
