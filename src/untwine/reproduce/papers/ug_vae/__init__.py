"""UG-VAE (Peis et al., 2020)."""
