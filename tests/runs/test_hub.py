"""The whole way to the Hub and back, against a server on loopback that speaks its protocol."""

import base64
import hashlib
import json
import re
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import untwine
from untwine.cli.main import app
from untwine.errors import DamagedFile, MissingLibraryError, ParameterError, RunError
from untwine.runs import hub

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")  # in the Hub's
TOKEN = "hf_of_a_test"
LFS = {"Content-Type": "application/vnd.git-lfs+json"}


class Hub(ThreadingHTTPServer):
    """Repositories in memory: commits by branch and by hash, files by name."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Request)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.branches, self.commits, self.blobs, self.asked = {}, {}, {}, []
        self.has_large_files = True  # which travel apart from the commit

    def commit(self, repository, branch, files):
        before = self.commits.get(self.branches.get((repository, branch)), {})
        content = {**before, **files}
        digest = hashlib.sha1(repr(sorted(content.items())).encode()).hexdigest()
        self.commits[digest] = content
        self.branches[repository, branch] = digest
        return digest

    def find(self, repository, revision):
        """The hash and the files of a revision, or None."""
        digest = self.branches.get((repository, revision), revision)
        known = any(name == repository for name, _ in self.branches)
        return (digest, self.commits[digest]) if known and digest in self.commits else None


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, content=b"", status=200, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        kind = {} if isinstance(content, bytes) else {"Content-Type": "application/json"}
        for name, value in {**kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.answer({"error": code}, status, **{"X-Error-Code": code})

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def handle_any(self):
        self.path = unquote(urlsplit(self.path).path)
        self.server.asked.append((self.command, self.path))
        self.body = self.read_body()
        writes = self.command in ("POST", "PUT")
        if writes and self.headers.get("Authorization") not in (f"Bearer {TOKEN}", None):
            return self.refuse(401, "Unauthorized")
        if writes and "/blob/" not in self.path and not self.headers.get("Authorization"):
            return self.refuse(401, "Unauthorized")
        for pattern, action in ROUTES:
            if match := re.fullmatch(pattern, f"{self.command} {self.path}"):
                return action(self, **match.groupdict())
        return self.refuse(404, "RepoNotFound")

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def create(self):
        asked = json.loads(self.body)
        repository = f"{asked['organization']}/{asked['name']}"
        if (repository, "main") in self.server.branches:
            return self.answer({"url": f"{self.server.address}/{repository}"}, 409)
        self.server.commit(repository, "main", {})
        return self.answer({"url": f"{self.server.address}/{repository}"})

    def branch(self, repository, branch):
        if (repository, branch) in self.server.branches:
            return self.refuse(409, "exists")
        self.server.branches[repository, branch] = self.server.branches[repository, "main"]
        return self.answer({})

    def modes(self, repository, revision):
        asked = json.loads(self.body)["files"]
        large = ".safetensors" if self.server.has_large_files else "no file"
        mode = {True: "lfs", False: "regular"}
        return self.answer(
            {
                "files": [
                    {
                        "path": file["path"],
                        "uploadMode": mode[file["path"].endswith(large)],
                        "shouldIgnore": False,
                    }
                    for file in asked
                ]
            }
        )

    def lfs(self, repository):
        objects = json.loads(self.body)["objects"]
        for one in objects:
            upload = {"href": f"{self.server.address}/blob/{one['oid']}"}
            one["actions"] = {"upload": upload}
        return self.answer(json.dumps({"transfer": "basic", "objects": objects}).encode(), **LFS)

    def blob(self, oid):
        assert hashlib.sha256(self.body).hexdigest() == oid
        self.server.blobs[oid] = self.body
        return self.answer()

    def write(self, repository, revision):
        files = {}
        for line in map(json.loads, self.body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.blobs[value["oid"]]
        digest = self.server.commit(repository, revision, files)
        url = f"{self.server.address}/{repository}/commit/{digest}"
        return self.answer({"success": True, "commitOid": digest, "commitUrl": url})

    def info(self, repository, revision="main"):
        commit = self.server.find(repository, revision)
        if commit is None:
            known = self.server.find(repository, "main")
            return self.refuse(404, "RevisionNotFound" if known else "RepoNotFound")
        digest, files = commit
        siblings = [{"rfilename": name, "size": len(files[name])} for name in files]
        return self.answer({"id": repository, "sha": digest, "siblings": siblings})

    def resolve(self, repository, revision, file):
        digest, files = self.server.find(repository, revision)
        if file not in files:
            return self.refuse(404, "EntryNotFound")
        etag = f'"{hashlib.sha1(files[file]).hexdigest()}"'
        return self.answer(files[file], **{"ETag": etag, "X-Repo-Commit": digest})


NAME = r"(?P<repository>[\w.-]+/[\w.-]+)"
ROUTES = [
    ("POST /api/repos/create", Request.create),
    ("POST /api/validate-yaml", lambda request: request.answer({"warnings": [], "errors": []})),
    (rf"POST /api/models/{NAME}/branch/(?P<branch>.+)", Request.branch),
    (rf"POST /api/models/{NAME}/preupload/(?P<revision>.+)", Request.modes),
    (rf"POST /api/models/{NAME}/commit/(?P<revision>.+)", Request.write),
    (rf"POST /{NAME}\.git/info/lfs/objects/batch", Request.lfs),
    (r"PUT /blob/(?P<oid>\w+)", Request.blob),
    (rf"GET /api/models/{NAME}/revision/(?P<revision>.+)", Request.info),
    (rf"GET /api/models/{NAME}", Request.info),
    (rf"(GET|HEAD) /{NAME}/resolve/(?P<revision>[^/]+)/(?P<file>.+)", Request.resolve),
]


@pytest.fixture
def server(tmp_path, monkeypatch):
    with Hub() as hub_server:
        threading.Thread(target=hub_server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", hub_server.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        yield hub_server
        hub_server.shutdown()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    numbers = {"network": "mlp(width=16)", "latent": 3, "steps": 20, "quiet": True, "threads": 1}
    trained = untwine.train_run("beta-tcvae", "sprites(size=16)", out, **numbers)
    untwine.evaluate_run(trained.path, ["mig", "reconstruction"], n_examples=200)
    return trained


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_a_run_goes_to_the_hub_and_comes_back_bit_for_bit(run, server):
    done = call("push", run.path, "ada/sprites", "--licence", "cc-by-4.0")
    assert done.exit_code == 0, done.output
    address = done.stdout.strip().splitlines()[-1]
    commit = server.branches["ada/sprites", "main"]
    assert address == f"hf://ada/sprites@{commit}"
    assert {*server.commits[commit]} == {"README.md", "model.json", "model.safetensors"}
    x = run.data.take(range(5))
    for place in ("hf://ada/sprites", address, "hf://ada/sprites@main"):
        model = untwine.load(place)
        assert torch.equal(model.encode(x), run.model.encode(x))
        assert torch.equal(model.sample(3, seed=0), run.model.sample(3, seed=0))


def test_small_files_travel_in_the_commit(run, server, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", False)
    server.has_large_files = False
    address = untwine.push(run.path, "ada/sprites")
    assert not server.blobs
    x = run.data.take(range(5))
    assert torch.equal(untwine.load(str(address)).encode(x), run.model.encode(x))


def test_only_the_model_files_are_downloaded_and_a_commit_only_once(run, server):
    address = untwine.push(run.path, "ada/sprites")
    server.commit("ada/sprites", "main", {"payload.py": b"raise SystemExit", "model.pkl": b"."})
    server.asked.clear()
    untwine.load("hf://ada/sprites")
    files = {path.rpartition("/")[2] for method, path in server.asked if "/resolve/" in path}
    assert files == {"model.json", "model.safetensors"}
    untwine.load(str(address))
    server.asked.clear()
    untwine.load(str(address))
    assert not server.asked


def test_commands_take_addresses(run, server, tmp_path):
    untwine.push(run.path, "ada/sprites")
    done = call("sample", "hf://ada/sprites", "--count", "2", "--out", tmp_path / "samples.npy")
    assert done.exit_code == 0, done.output
    np.save(tmp_path / "images.npy", run.data.take(range(5)).numpy()[:, 0])
    codes = tmp_path / "codes.npy"
    done = call("encode", "hf://ada/sprites", tmp_path / "images.npy", "--out", codes)
    assert done.exit_code == 0, done.output
    expected = run.model.encode(run.data.take(range(5))).numpy()
    assert np.allclose(np.load(codes), expected, atol=1e-6)
    untwine.load(untwine.load("hf://ada/sprites").save(tmp_path / "copy"))


def test_the_page_is_made_from_the_run(run, server):
    address = untwine.push(run.path, "ada/sprites", licence="apache-2.0")
    page = server.commits[address.revision]["README.md"].decode()
    assert page.startswith("---\nlibrary_name: untwine\nlicense: apache-2.0\n")
    assert 'untwine.load("hf://ada/sprites")' in page
    assert "L = " in page and "@inproceedings" in page
    assert "sprites(size=16)" in page and str(run.path) not in page
    (mig,) = [line for line in page.splitlines() if line.startswith("| mig |")]
    value, noise, rotated, perfect = (cell.strip(" *") for cell in mig.split("|")[2:6])
    assert float(value) == pytest.approx(run.scores["mig"], rel=1e-3)
    assert float(noise) < float(rotated) < float(perfect)


def test_a_page_names_no_place_of_the_users_files(tmp_path):
    from untwine.catalogue.publishing import model_page

    secret = tmp_path / "home-of-ada"
    secret.mkdir()
    np.save(secret / "cells.npy", np.random.default_rng(0).random((40, 5), np.float32))
    numbers = {"latent": 2, "steps": 10, "batch": 8, "quiet": True, "threads": 1}
    trained = untwine.train_run("vae", str(secret / "cells.npy"), tmp_path / "runs", **numbers)
    page = model_page(trained, "ada/cells")
    assert "home-of-ada" not in page and str(tmp_path) not in page
    assert "None yet" in page


def test_branches_and_updates(run, server):
    first = untwine.push(run.path, "ada/sprites", revision="small")
    assert server.branches["ada/sprites", "small"] == first.revision
    assert "model.json" not in server.commits[server.branches["ada/sprites", "main"]]
    untwine.load("hf://ada/sprites@small")
    with pytest.raises(RunError, match=r"has no model\.json"):
        untwine.load("hf://ada/sprites")


def test_what_was_changed_on_the_way_is_refused(run, server, tmp_path):
    address = untwine.push(run.path, "ada/sprites")
    files = server.commits[address.revision]
    weights = bytearray(files["model.safetensors"])
    weights[-1] ^= 1
    server.commit("ada/sprites", "main", {"model.safetensors": bytes(weights)})
    with pytest.raises(DamagedFile, match=r"checksum differs.*delete .* again"):
        untwine.load("hf://ada/sprites")
    card = files["model.json"].replace(b'"latent": 3', b'"latent": 4')
    server.commit("ada/sprites", "main", {"model.json": card})
    with pytest.raises(DamagedFile, match="checksum differs"):
        untwine.load("hf://ada/sprites")


def test_the_check_of_a_cache_reads_downloaded_models(run, server, tmp_path):
    untwine.load(str(untwine.push(run.path, "ada/sprites")))
    assert call("check", tmp_path / "cache").exit_code == 0
    (weights,) = (tmp_path / "cache" / "hub").glob("*/*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    done = call("check", tmp_path / "cache")
    assert done.exit_code == 1 and "checksum differs" in done.output
    assert call("check", run.model.save(tmp_path / "model")).exit_code == 0


def test_a_file_that_is_too_large_is_not_downloaded(run, server, monkeypatch):
    untwine.push(run.path, "ada/sprites")
    monkeypatch.setitem(hub.MAX_BYTES, "model.safetensors", 1000)
    server.asked.clear()
    with pytest.raises(RunError, match="where 1,000 are allowed"):
        untwine.load("hf://ada/sprites")
    assert not [path for _, path in server.asked if "/resolve/" in path]


@pytest.mark.parametrize(
    "address", ["hf://", "hf://ada", "hf://ada/sprites@", "hf://ada/../../etc", "hf://a/b/c"]
)
def test_odd_addresses_are_refused_before_any_request(address, server):
    with pytest.raises(ParameterError, match="hf://ORG/NAME"):
        untwine.load(address)
    assert not server.asked


def test_refusals_are_sentences(run, server, monkeypatch):
    with pytest.raises(RunError, match="no such repository"):
        untwine.load("hf://ada/nothing")
    done = call("push", run.path, "not a name")
    assert done.exit_code and isinstance(done.exception, ParameterError)
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    with pytest.raises(RunError, match="hf auth login"):
        untwine.push(run.path, "ada/sprites")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
    with pytest.raises(RunError, match="could not be reached"):
        untwine.load("hf://ada/sprites")


def test_without_the_library_the_sentence_names_the_extra(run, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'untwine\[hub\]'"):
        untwine.load("hf://ada/sprites")


def test_a_local_folder_never_asks_the_hub(run, server, tmp_path):
    shutil.copytree(run.path, tmp_path / "copy")
    untwine.load(tmp_path / "copy")
    untwine.load(run.model.save(tmp_path / "model"))
    assert not server.asked
