"""roost: a peer node for AI-agent sessions."""

__version__ = "0.1.0"
