"""BibTeX entries of papers with several models."""

from __future__ import annotations

KUMAR_2018 = """@inproceedings{kumar2018variational,
  title = {Variational Inference of Disentangled Latent Concepts from Unlabeled Observations},
  author = {Kumar, Abhishek and Sattigeri, Prasanna and Balakrishnan, Avinash},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}"""
MIAO_2022 = """@inproceedings{miao2022incorporating,
  title = {On Incorporating Inductive Biases into {VAE}s},
  author = {Miao, Ning and Mathieu, Emile and Siddharth, N. and Teh, Yee Whye and Rainforth, Tom},
  booktitle = {International Conference on Learning Representations},
  year = {2022}
}"""
TAGHANAKI_2020 = """@article{taghanaki2020jigsaw,
  title = {Jigsaw-VAE: Towards Balancing Features in Variational Autoencoders},
  author = {Taghanaki, Saeid Asgari and Havaei, Mohammad and Lamb, Alex and Sanghi, Aditya and
    Danielyan, Ara and Custis, Tonya},
  journal = {arXiv:2005.05496},
  year = {2020}
}"""
