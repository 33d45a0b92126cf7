"""DIP-VAE (Kumar et al., 2018)."""
