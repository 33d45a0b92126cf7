"""Bytes from outside: every file that a user names is read here, and nowhere else.

`bounds`     limits, whatever a decoder raises as a sentence, gzip
`arrays`     .npy and .npz
`archives`   .zip and .tar
`pictures`   picture files
`tables`     CSV, Parquet and HDF5
`matlab`     MATLAB files
`documents`  YAML
`databases`  SQLite

Sizes that a file declares are compared with the bytes that are there before memory is taken, what
is packed is unpacked within a limit, and no file leads to another one. A bad file ends in a
`DataError`. `tests/test_incoming.py` looks for other readers.
"""
