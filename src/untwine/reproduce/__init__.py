"""The papers' tables and figures: items, evidence, claims, pages."""
