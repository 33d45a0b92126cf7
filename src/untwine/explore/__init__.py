"""The explorer: a page in the browser that shows what the latents of runs encode.

gallery.py    the runs and studies that the explorer serves
view.py       views of one run, computed on first use; no web code
sample.py     a run with a sample of its data, which every view is made of
rows.py       rows of a table: examples and decoded codes as numbers by column
points.py     codes of examples as dots: their places, colours and images
measuring.py  what a model says of every example, measured in the background
model.py      a model with its data that many threads may use
summaries.py  descriptions of a run: its latents, clusters and scores
answers.py    the data types of the server's answers
memo.py       a thread-safe LRU cache that computes each key once
spaces.py     codes in two dimensions, and what distinguishes a selection
lines.py      the list of runs: what each is called, and how far it is
curves.py     learning curves of finished and running runs
tables.py     the runs of a study as a table, and the sections of its report
plane.py      points of the plane drawn as images
uploads.py    a picture file made to fit a model
server.py     the web service: views as JSON and PNG, and the page
study_routes.py the part of it on curves and studies
run_routes.py the part of it on one run
routes.py     what routes share: kinds of answers, refusals, names of runs
requests.py   the parameters of requests
serving.py    the command's side of the server: socket, token, browser
notebook.py   the explorer in a cell of a notebook
security.py   access control before every request: host, origin, token, size
connections.py limits on connections and on what the server logs
export.py     a static copy of the page and of the answers it needs
recording.py  these answers and pictures, recorded from the server
constants.py  numbers that the page and the Python side share
showcase/     trained models that come with untwine
page/         the page: plain HTML, CSS and JavaScript, no build step
"""
