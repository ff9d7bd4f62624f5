"""The one place that holds the version; pyproject.toml reads it from here."""

__version__ = "0.1.0"
