"""Exhibits that several papers use."""
