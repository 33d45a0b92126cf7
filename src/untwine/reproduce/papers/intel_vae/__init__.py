"""InteL-VAE (Miao et al., 2022)."""
