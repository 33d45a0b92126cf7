"""The command `untwine explore`."""

import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

from untwine.cli.main import app
from untwine.errors import DataError, ParameterError, UntwineError
from untwine.explore import serving
from untwine.explore.serving import is_local, open_socket


def command(*words):
    return CliRunner().invoke(app, ["explore", *map(str, words)])


def fault(*words):
    """The sentence with which the command refuses."""
    result = command(*words)
    assert result.exit_code != 0 and isinstance(result.exception, UntwineError), result.output
    return str(result.exception)


def start(*words):
    """The command as a process of its own, and the address it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "untwine", "explore", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return process, process.stdout.readline().strip()


def get(address, **more):
    return httpx.get(address, trust_env=False, timeout=60, **more)


def test_it_starts_answers_and_ends_quietly_with_ctrl_c(explored):
    out, paths = explored
    process, address = start(paths["plain"], "--out", out, "--port", 0)
    try:
        port, _, token = address.rpartition(":")[2].partition("/?token=")
        assert len(token) > 30
        base = f"http://127.0.0.1:{port}/api/runs"
        assert get(address).status_code == 200 and get(base).status_code == 401
        with httpx.Client(trust_env=False, headers={"authorization": f"Bearer {token}"}) as client:
            (line,) = client.get(base).json()
            assert line["name"] == paths["plain"].name
            assert client.get(f"{base}/{line['name']}", timeout=60).json()["title"]
            assert client.get(f"{base}/{paths['grouped'].name}").status_code == 404
        assert get(f"{base}?token={token}").status_code == 200
    finally:
        process.send_signal(signal.SIGINT)
    rest, told = process.communicate(timeout=60)
    assert process.returncode == 0 and rest == ""
    assert told.strip() == "Ctrl-C ends the explorer"


@pytest.mark.parametrize(
    ("words", "hosts"), [([], "local"), (["--no-token"], "local"), (["--host", "0.0.0.0"], "*")]
)
def test_a_token_is_required_unless_the_user_says_otherwise(monkeypatch, explored, words, hosts):
    apps, printed = [], []
    monkeypatch.setattr(serving, "make_server", lambda app: apps.append(app) or Idle())
    monkeypatch.setattr(serving, "warm_up", lambda place: None)
    result = command("--out", explored[0], "--port", 0, *words)
    printed = result.stdout.strip()
    settings = apps[0].user_middleware[0].kwargs
    assert settings["token"] == printed.partition("?token=")[2]
    assert bool(settings["token"]) == ("--no-token" not in words)
    assert (settings["hosts"] == ("*",)) == (hosts == "*") and not settings["one_time_tokens"]


def test_other_machines_always_need_a_token(explored):
    words = ("--host", "0.0.0.0", "--port", 0, "--no-token")
    assert "--no-token is for this machine" in fault("--out", explored[0], *words)


class Idle:
    """A server that ends at once."""

    def run(self, sockets):
        pass


def test_a_copy_is_written_and_told(explored, tmp_path, monkeypatch):
    from untwine.explore import recording

    monkeypatch.setattr(
        recording, "picture_addresses", lambda copy, base: [f"{base}/image.png?index=0"]
    )
    result = command(explored[1]["plain"], "--export", tmp_path / "shown", "-q")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(tmp_path / "shown" / "index.html")
    assert list((tmp_path / "shown").glob("data-*.js"))


def test_without_runs_it_says_what_to_do(tmp_path):
    assert "untwine train" in fault("--out", tmp_path)
    assert "nothing-like-that" in fault("nothing-like-that", "--out", tmp_path)


def test_a_port_that_is_taken_is_told_and_the_usual_one_is_passed_over(monkeypatch, explored):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        assert f"port {taken} is taken" in fault("--out", explored[0], "--port", taken)
        monkeypatch.setattr(serving, "PORT", taken)
        with open_socket("127.0.0.1", None) as door:
            assert door.getsockname()[1] > taken
        monkeypatch.setattr(serving, "N_PORTS_TRIED", 1)
        with pytest.raises(ParameterError, match="are taken"):
            open_socket("127.0.0.1", None)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.7"])
def test_an_address_of_another_machine_is_refused(explored, host):
    assert host in fault("--out", explored[0], "--host", host)


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_missing_package_is_told_with_what_installs_it(monkeypatch, missing, tmp_path):
    monkeypatch.setitem(sys.modules, missing, None)
    sentence = fault("--out", tmp_path)
    assert missing in sentence and "pip install 'untwine[explore]'" in sentence


def test_the_browser_is_opened_only_from_a_terminal_with_a_token_that_works_once(
    monkeypatch, explored, capsys
):
    opened, apps = [], []
    monkeypatch.setattr(serving, "open_browser", opened.append)
    monkeypatch.setattr(serving, "make_server", lambda app: apps.append(app) or Idle())
    monkeypatch.setattr(serving, "in_background", lambda work: work())
    monkeypatch.setattr(serving, "warm_up", lambda place: None)
    assert command("--out", explored[0], "--port", 0).exit_code == 0 and not opened
    with open_socket("127.0.0.1", 0) as door:
        serving.serve(object(), door, "127.0.0.1", browser=True)
        base = f"http://127.0.0.1:{door.getsockname()[1]}/?token="
    (token,) = apps[-1].user_middleware[0].kwargs["one_time_tokens"]
    assert opened == [f"{base}{token}"]
    printed = capsys.readouterr().out.strip()
    assert printed.startswith(base) and printed != opened[0]


def test_what_cannot_be_warmed_up_does_not_stop_the_server():
    class Broken:
        def overview(self):
            raise DataError("its files are not here")

    serving.warm_up(Broken())


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.2", False), ("localhost.example", False)],
)  # fmt: skip
def test_only_loopback_is_local(host, local):
    assert is_local(host) == local
