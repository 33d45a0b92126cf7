"""The explorer: a page in the browser that shows what the latents of runs hold.

look.py      what can be seen of one run, computed on first use; knows nothing of the web
place.py     which runs and studies may be looked at
answers.py   the shapes of the server's answers
server.py    looks as a small web service, and the page
export.py    a static copy of the page and of the answers it needs
page/        the page: plain HTML, CSS and JavaScript, no build step
"""
