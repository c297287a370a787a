"""An evaluation as a page: one HTML file that loads nothing."""

from predgap.report._write import write_report

__all__ = ["write_report"]
