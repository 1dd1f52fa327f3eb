"""Reports: what was computed elsewhere as tables, figures and pages."""
