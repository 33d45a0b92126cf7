"""Tools that know nothing of VAEs: files, processes, progress, images and pages."""
