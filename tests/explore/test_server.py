"""The explorer's server: what it answers, what it refuses, and that it stays up."""

import io
import socket
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from PIL import Image
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from untwine.explore import security, spaces
from untwine.explore.gallery import Gallery
from untwine.explore.server import application


@pytest.fixture(scope="module")
def place(explored):
    out, paths = explored
    with pytest.MonkeyPatch.context() as patch:  # t-SNE takes seconds and is tested elsewhere
        patch.setattr(spaces, "tsne_coordinates", lambda codes, *_: codes[:, :2])
        yield Gallery.find([str(path) for path in paths.values()], out)


@pytest.fixture(scope="module")
def app(place):
    return application(place)


@pytest.fixture(scope="module")
def client(app, serving):
    with serving(app) as address, caller(address) as client:
        yield client


@pytest.fixture(scope="module")
def plain(explored):
    return f"/api/runs/{explored[1]['plain'].name}"


def caller(address):
    return httpx.Client(base_url=address, timeout=60, trust_env=False)


def size(response):
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "image/png"
    return Image.open(io.BytesIO(response.content)).size


def why(response, status):
    """The sentence of a refusal."""
    assert response.status_code == status, response.text
    assert list(response.json()) == ["detail"]
    return response.json()["detail"]


def zeros(client, run):
    return ",".join("0" for _ in client.get(run).json()["latents"])


def test_runs_are_listed_and_told(client, explored, plain):
    names = {line["name"] for line in client.get("/api/runs").json()}
    assert names == {path.name for path in explored[1].values()}
    facts = client.get(plain).json()
    assert facts["shape"] == [1, 16, 16] and len(facts["latents"]) == 5 and facts["factors"]


def test_pictures_of_data_and_codes(client, plain):
    code = zeros(client, plain)
    first, second = (e["index"] for e in client.get(f"{plain}/examples?count=2").json())
    assert size(client.get(f"{plain}/image.png?index={first}")) == (16, 16)
    assert size(client.get(f"{plain}/reconstruction.png?index={first}")) == (16, 16)
    assert size(client.get(f"{plain}/decode.png?code={code}")) == (16, 16)
    sheet = client.get(f"{plain}/traversals.png?code={code}&latents=3,1&steps=7")
    assert size(sheet) == (7 * 16, 2 * 16)
    between = client.get(f"{plain}/between.png?start={first}&end={second}&steps=5")
    assert size(between) == (5 * 16, 16)
    assert size(client.get(f"{plain}/sheet.png"))[0] == 32 * 16


def test_starts_and_uploads(client, plain):
    from_prior = client.get(f"{plain}/start?seed=3").json()
    assert len(from_prior["code"]) == 5 and not from_prior["picture"]
    assert client.get(f"{plain}/start?index=5").json()["picture"].startswith("data:image/png")
    sent = client.post(f"{plain}/start", content=picture(40, 30))
    assert sent.status_code == 200 and sent.json()["note"] and len(sent.json()["code"]) == 5


def test_space_selection_factors_and_study(client, plain):
    space = client.get(f"{plain}/space?by=latents&x=1&y=0").json()
    assert len(space["index"]) == len(space["x"]) == len(space["y"])
    chosen = client.post(f"{plain}/selection", json={"indices": space["index"][:9]}).json()
    assert chosen["count"] == 9 and chosen["picture"].startswith("data:image/png")
    table = client.get(f"{plain}/factors").json()
    assert len(table["matrix"]) == 5 and any(s["name"] == "mig" for s in table["scores"])
    study = client.get("/api/study").json()
    assert len(study["rows"]) == len(study["runs"]) == 3
    assert client.get("/api/study/sections").json() == []
    assert "there are none" in why(client.get("/api/study/figures/by-model.svg"), 404)


def test_curves_and_what_opens_first(client, plain):
    curves = client.get(f"{plain}/curves").json()
    assert curves["steps"][-1] == 60 and len(curves["training"]["loss"]) == len(curves["steps"])
    assert curves["run"]["phase"] == "finished" and curves["run"]["label"].startswith("β-TCVAE")
    assert "no run" in why(client.get("/api/runs/nothing/curves"), 404)
    overview = client.get("/api/overview").json()
    assert overview["view"] == "latents" and overview["waiting"] == 0
    assert overview["run"] == client.get("/api/runs").json()[0]["name"]


def test_clusters_and_groups(client, explored):
    clustered, grouped = (
        f"/api/runs/{explored[1][kind].name}" for kind in ("clustered", "grouped")
    )
    clusters = client.get(f"{clustered}/clusters").json()
    assert len(clusters) == 3
    drawn = [client.get(f"{clustered}/cluster.png?number={n}&count=4") for n in range(3)]
    assert all(size(one)[1] == 16 for one in drawn if one.status_code != 409)
    assert any(one.status_code == 200 for one in drawn)
    assert size(client.get(f"{grouped}/groups.png?rows=2&columns=3")) == (3 * 16, 2 * 16)


def test_what_a_model_lacks_is_refused_in_a_sentence(client, plain):
    assert "cluster" in why(client.get(f"{plain}/clusters"), 409)
    assert "group" in why(client.get(f"{plain}/groups.png"), 409)


def test_the_page_its_files_and_the_description(client):
    page = client.get("/")
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]
    assert client.get("/page/api.js").status_code == 200
    paths = client.get("/api/openapi.json").json()["paths"]
    assert {"/api/study", "/api/runs/{run}/decode.png"} <= set(paths)


def test_answers_carry_the_headers_of_a_careful_server(client, plain):
    for response in (client.get("/"), client.get("/api/runs"), client.get("/nothing")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "script-src 'self';" in response.headers["content-security-policy"]
    assert client.get("/api/runs").headers["cache-control"] == "no-store"
    drawn = client.get(f"{plain}/image.png?index=0").headers["cache-control"]
    assert drawn.startswith("private, max-age=")


@pytest.mark.parametrize(
    ("rest", "word"),
    [
        ("image.png?index=-1", "index"),
        ("image.png?index=99999999", "example"),
        ("image.png?index=1e3", "index"),
        ("image.png?index=" + "9" * 5000, "index"),
        ("image.png", "index is missing"),
        ("decode.png", "code is missing"),
        ("decode.png?code=", "not a number"),
        ("decode.png?code=1,2", "5"),
        ("decode.png?code=1,2,3,4,5,6", "5"),
        ("decode.png?code=1,2,x,4,5", "'x' is not a number"),
        ("decode.png?code=1,2,nan,4,5", "'nan' is not a number"),
        ("decode.png?code=1,2,inf,4,5", "'inf' is not a number"),
        ("decode.png?code=1,2,1e999,4,5", "between -100 and 100"),
        ("decode.png?code=1,2,-100.5,4,5", "between -100 and 100"),
        ("decode.png?code=" + "0," * 5000 + "0", "5"),
        ("decode.png?code=" + "9" * 9_000 + ",0,0,0,0", "between -100 and 100"),
        ("decode.png?code=%D9%A3,0,0,0,0", "not a number"),
        ("traversals.png?code=0,0,0,0,0&latents=5&steps=5", "5"),
        ("traversals.png?code=0,0,0,0,0&latents=&steps=5", "whole numbers"),
        ("traversals.png?code=0,0,0,0,0&latents=-1&steps=5", "whole numbers"),
        ("traversals.png?code=0,0,0,0,0&latents=0&steps=1", "steps"),
        ("traversals.png?code=0,0,0,0,0&latents=0&steps=42", "steps"),
        ("traversals.png?code=0,0,0,0,0&latents=" + "0," * 4000 + "0&steps=41", "too many"),
        ("examples?count=101", "count"),
        ("examples?count=0", "count"),
        ("examples?seed=-1", "seed"),
        ("reconstructions?order=middle", "order"),
        ("start", "index"),
        ("start?index=1&seed=1", "only one"),
        ("between.png?start=0&end=99999999", "example"),
        ("space?by=umap", "by"),
        ("space?by=latents&x=0&y=5", "5"),
    ],
)
def test_values_out_of_range_are_refused_in_a_sentence(client, plain, rest, word):
    sentence = why(client.get(f"{plain}/{rest}"), 422)
    assert word in sentence and len(sentence) < 200


@pytest.mark.parametrize(
    "body",
    [{}, {"indices": []}, {"indices": [-1]}, {"indices": ["x"]}, {"indices": [10**9]}, [], None,
     {"indices": list(range(1001))}, {"indices": [0.5]}, {"indices": [10**400]}],
)  # fmt: skip
def test_selections_out_of_range_are_refused(client, plain, body):
    assert len(why(client.post(f"{plain}/selection", json=body), 422)) < 200


def test_a_body_that_is_not_json_is_refused(client, plain):
    kind = {"content-type": "application/json"}
    assert "JSON" in why(client.post(f"{plain}/selection", content=b"{", headers=kind), 422)
    why(client.post(f"{plain}/selection", content=b'{"indices": [1]}'), 422)
    deep = b"[" * 100_000
    assert client.post(f"{plain}/selection", content=deep, headers=kind).status_code in (400, 422)


@pytest.mark.parametrize(
    "name",
    ["../..", "../../etc/passwd", "/etc/passwd", "nothing", "", "a\0b", "~", "*",
     "%2e%2e", "x" * 5000, "runs\\..\\..", "\u2028"],
)  # fmt: skip
def test_names_reach_nothing_but_the_given_runs(client, name):
    for rest in ("", "/factors", "/image.png?index=0"):
        response = client.get(f"/api/runs/{quote(name, safe='')}{rest}")
        assert response.status_code == 404 or (not name and response.status_code in (200, 307))
    for path in (f"/page/{quote(name, safe='')}", f"/api/study/figures/{quote(name, safe='')}.svg"):
        assert client.get(path).status_code in (404, 405)


def spoken(client, text):
    """What the server answers to bytes as they are."""
    with socket.create_connection((client.base_url.host, client.base_url.port)) as line:
        line.sendall(text.encode())
        return b"".join(iter(lambda: line.recv(65536), b""))


@pytest.mark.parametrize(
    "path",
    ["/page/../server.py", "/page/%2e%2e/server.py", "/page//etc/passwd", "/../etc/passwd",
     "/page/..%2fserver.py", "/api/runs/../../../etc/passwd"],
)  # fmt: skip
def test_raw_paths_reach_nothing_but_the_given_files(client, path):
    answer = spoken(client, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404")


def test_what_is_no_request_does_not_end_the_server(client):
    rest = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert b" 400 " in spoken(client, "hello\r\n\r\n")
    assert spoken(client, f"GET /{'x' * 20_000} {rest}").startswith(b"HTTP/1.1 4")
    assert client.get("/api/runs").status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8765", "127.0.0.1:1", "[::1]", "[::1]:80"]
)
def test_the_names_of_this_machine_are_answered(client, host):
    assert client.get("/api/runs", headers={"host": host}).status_code == 200


@pytest.fixture
def guarded(place, serving):
    app = application(place, token="a-token", hosts=["*"])
    with serving(app) as address, caller(address) as client:
        client.headers["host"] = "somewhere.example"
        yield client


def test_without_the_token_nothing_is_answered(guarded):
    for path in ("/", "/page/api.js", "/api/runs", "/api/openapi.json", "/nothing"):
        assert "token" in why(guarded.get(path), 401)
    for headers in ({"authorization": "Bearer"}, {"authorization": "Bearer wrong"},
                    {"authorization": "Basic a-token"}, {"cookie": "untwine=a-token; ="},
                    {"authorization": "Bearer \u00e4".encode()}):  # fmt: skip
        assert guarded.get("/api/runs", headers=headers).status_code == 401
    for query in ("token=", "token=wrong", "token=a-toke%6", "x=1&" * 200 + "token=a-token"):
        assert guarded.get(f"/api/runs?{query}").status_code == 401


def test_a_token_in_the_address_is_kept_in_a_cookie(guarded):
    first = guarded.get("/?token=a-token")
    assert first.status_code == 200
    kept = first.headers["set-cookie"]
    assert "HttpOnly" in kept and "SameSite=Strict" in kept
    assert guarded.get("/api/runs").status_code == 200
    assert "set-cookie" not in guarded.get("/api/runs").headers


def test_a_token_in_a_header_is_enough(guarded):
    headers = {"authorization": "Bearer a-token"}
    assert guarded.get("/api/runs", headers=headers).status_code == 200
    assert guarded.get("/api/runs").status_code == 401


def test_a_server_without_a_token_sets_no_cookie(client):
    assert "set-cookie" not in client.get("/?token=").headers


def picture(width, height):
    stream = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 60)).save(stream, "PNG")
    return stream.getvalue()


def bomb():
    """A PNG of a few kilobytes that says it holds 10^10 pixels."""

    def chunk(kind, content):
        whole = kind + content
        return struct.pack(">I", len(content)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(10_000_000), 9)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


HOSTILE = {
    "nothing": b"",
    "text": b"hello",
    "half a picture": picture(300, 300)[:200],
    "bomb": bomb(),
    "a page": b"<html><script>alert(1)</script></html>",
    "drawing": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "zeros": bytes(1000),
    "large noise": bytes(range(256)) * 39_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_picture_is_refused_in_a_sentence(client, plain, kind):
    assert why(client.post(f"{plain}/start", content=HOSTILE[kind]), 422)


def test_too_much_is_refused_however_it_is_sent(client, plain):
    much = bytes(security.MAX_UPLOAD + 1)
    for content in (much, iter([much[:5_000_000]] * 3)):
        assert "10 MB" in why(client.post(f"{plain}/start", content=content), 413)
    kind = {"content-type": "application/json"}
    assert "10 MB" in why(client.post(f"{plain}/selection", content=much, headers=kind), 413)
    assert client.get("/api/runs").status_code == 200


def test_methods_and_addresses_that_do_not_exist(client, plain):
    assert "/api/openapi.json" in why(client.get("/api/nothing"), 404)
    assert "DELETE" in why(client.delete(plain), 405)
    assert "there is no run" in why(client.get("/api/runs/nothing"), 404)


def test_a_fault_inside_is_told_and_the_server_goes_on(client, place, monkeypatch):
    with monkeypatch.context() as patch, caller(client.base_url) as other:
        patch.setattr(type(place), "lines", lambda self: 1 / 0)
        response = other.get("/api/runs")
    assert "inside the server" in why(response, 500)
    assert response.headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/runs").status_code == 200


def test_a_score_that_is_no_number_is_answered(client, place, monkeypatch):
    line = place.lines()[0].model_copy(update={"scores": {"mig": float("nan")}})
    monkeypatch.setattr(type(place), "lines", lambda self: [line])
    assert client.get("/api/runs").json()[0]["scores"] == {"mig": None}


def test_fifty_users_at_once_are_all_answered(client, plain):
    """Every user moves a slider a few times, and then asks for nonsense."""

    def user(number):
        moves = [f"{number / 50},{move},0,0,0" for move in range(6)]
        with caller(client.base_url) as mine:
            codes = [*moves, "nan"]
            return [mine.get(f"{plain}/decode.png?code={code}").status_code for code in codes]

    with ThreadPoolExecutor(50) as users:
        assert list(users.map(user, range(50))) == [[200] * 6 + [422]] * 50


def test_one_code_gives_the_same_picture_to_everybody_at_any_time(client, plain):
    path = f"{plain}/decode.png?code=0.5,-1,2,0,1"
    alone = client.get(path).content
    with ThreadPoolExecutor(8) as users:
        assert set(users.map(lambda _: client.get(path).content, range(16))) == {alone}


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


schema = schemathesis.openapi.from_dict(application(None).openapi())
schema.config.phases.coverage.enabled = False  # one case for each rule: thorough, and minutes


@schema.parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_the_server_does_what_its_description_says(case, client, plain):
    if "run" in case.path_parameters:
        case.path_parameters["run"] = plain.rpartition("/")[2]
    case.call_and_validate(base_url=str(client.base_url), checks=CHECKS)
