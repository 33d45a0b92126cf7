"""Jigsaw-VAE (Taghanaki et al., 2020)."""
