"""Models on the Hugging Face Hub, by an address that the user names: hf://ORG/NAME@REVISION."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from untwine.data.cache import cache_directory
from untwine.errors import ParameterError, RunError, UntwineError
from untwine.runs.cards import load_model
from untwine.spec import MAX_MODEL_BYTES
from untwine.tools.extras import needs_extra
from untwine.tools.sealed import MAX_JSON_BYTES
from untwine.vae import VAE

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SCHEME = "hf://"
NAME = r"[A-Za-z0-9][\w.-]{0,95}"
REPOSITORY = re.compile(rf"{NAME}/{NAME}")
ADDRESS = re.compile(
    rf"{SCHEME}(?P<repository>{REPOSITORY.pattern})(?:@(?P<revision>[\w./-]{{1,200}}))?"
)
COMMIT = re.compile(r"[0-9a-f]{40}")
MAX_BYTES = {"model.json": MAX_JSON_BYTES, "model.safetensors": MAX_MODEL_BYTES}
"""The files that are downloaded, and how large they may be."""


@dataclass(frozen=True)
class HubAddress:
    """A repository and, if one was named, its revision.

    >>> HubAddress.read("hf://ada/sprites@v1")
    HubAddress(repository='ada/sprites', revision='v1')
    """

    repository: str
    revision: str | None = None

    @classmethod
    def read(cls, text: str) -> HubAddress:
        match = ADDRESS.fullmatch(text)
        if match is None:
            raise ParameterError(
                f"an address on the Hub is hf://ORG/NAME or hf://ORG/NAME@REVISION, not {text!r}"
            )
        return cls(match["repository"], match["revision"])

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}" + (f"@{self.revision}" if self.revision else "")


HUB_FOLDERS = "hub/*/*"
"""Folders of downloaded models below the cache."""


def is_hub_address(place: object) -> bool:
    return str(place).startswith(SCHEME)


def load_from_hub(text: str) -> VAE:
    """The model at an address, in evaluation mode on the CPU.

    Its two files are downloaded once for each commit, and opened like any folder of a model.
    """
    address = HubAddress.read(text)
    folder = cached_folder(address)
    if folder is None:
        folder = download_model(address)
    return load_model(folder, remedy=f"delete {folder} and load {address} again")


def cached_folder(address: HubAddress) -> Path | None:
    """Where a model is on this machine; None unless a whole commit is named and was downloaded."""
    if not COMMIT.fullmatch(address.revision or ""):
        return None
    folder = hub_folder(address.repository, str(address.revision))
    whole = all(os.path.lexists(folder / name) for name in MAX_BYTES)
    return folder if whole else None


def hub_folder(repository: str, commit: str) -> Path:
    return cache_directory() / "hub" / repository.replace("/", "--") / commit


def download_model(address: HubAddress) -> Path:
    """Download the two files of a model, and nothing else; returns their folder."""
    api, repository = hub_api(), address.repository
    with explain_failures(str(address)):
        info = api.model_info(repository, revision=address.revision, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        commit = str(info.sha)
        if not COMMIT.fullmatch(commit):
            raise RunError(f"the Hub names no commit of {address}; try again")
        for name, most in MAX_BYTES.items():
            if name not in sizes:
                raise RunError(f"{address} is not a model of untwine: it has no {name}")
            if sizes[name] > most:
                raise RunError(
                    f"{name} of {address} has {sizes[name]:,} bytes where {most:,} are allowed"
                )
        folder = hub_folder(repository, commit)
        for name in MAX_BYTES:
            api.hf_hub_download(repository, name, revision=commit, local_dir=folder)
    return folder


def upload_folder(
    folder: Path,
    repository: str,
    *,
    message: str,
    revision: str | None = None,
    private: bool = False,
    endpoint: str | None = None,
) -> HubAddress:
    """Upload all files of a folder in one commit, and return its address.

    The repository is created if it does not exist.
    """
    if not REPOSITORY.fullmatch(repository):
        raise ParameterError(f"a repository on the Hub is ORG/NAME, not {repository!r}")
    api = hub_api(endpoint)
    with explain_failures(repository):
        api.create_repo(repository, private=private, exist_ok=True)
        if revision:
            api.create_branch(repository, branch=revision, exist_ok=True)
        done = api.upload_folder(
            repo_id=repository, folder_path=folder, commit_message=message, revision=revision
        )
    return HubAddress(repository, done.oid)


def hub_api(endpoint: str | None = None) -> HfApi:
    """The Hub's interface at this endpoint, by default that of HF_ENDPOINT."""
    with needs_extra("hub", "the Hugging Face Hub"):
        from huggingface_hub import HfApi
    return HfApi(endpoint=endpoint or os.environ.get("HF_ENDPOINT"), library_name="untwine")


@contextmanager
def explain_failures(place: str) -> Iterator[None]:
    """Turn what the Hub's library raises into one sentence."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except UntwineError:
        raise
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        reasons = {
            401: "you are not logged in, or it does not exist; run `hf auth login` or set HF_TOKEN",
            403: "your token may not do this; it needs the permission to write",
            404: "there is no such repository, revision or file",
        }
        reason = reasons.get(status, str(error).strip().partition("\n")[0])
        raise RunError(f"the Hub refused {place}: {reason}") from error
    except Exception as error:  # no network, a broken answer, a full disk: one of many kinds
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise RunError(f"the Hub could not be reached for {place}: {reason}") from error
