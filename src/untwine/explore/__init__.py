"""The explorer: a page in the browser that shows what the latents of runs hold.

look.py      what can be seen of one run, computed on first use; knows nothing of the web.
             It stands on subject.py (a run with a sample of its data), handle.py (a model for many
             threads), facts.py, spaces.py, tiles.py (pictures), uploads.py and kept.py
place.py     which runs and studies may be looked at, with tables.py
answers.py   the shapes of the server's answers
server.py    looks as a small web service, and the page; guard.py says who may ask, manual.py
             describes the service
export.py    a static copy of the page and of the answers it needs
page/        the page: plain HTML, CSS and JavaScript, no build step
"""
