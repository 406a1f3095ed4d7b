"""Agents and the services that run their tools."""
