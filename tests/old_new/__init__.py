"""Old against new, executed: two revisions of tiersnap side by side over the same logs, every difference listed.

`make old-new OLD=<revision>` installs the wheel of that revision and the one of this tree, each into an environment of
its own, and has both type the same commands (`scenarios`) over the bundled and 200 generated logs (`inputs`), in a
folder and on an S3 server, on the host and on Spark. Compared are stdout, JSON, exit codes, files, objects, snapshot
bytes and the rows of tables (`observed`), after what differs between any two runs was replaced (`normal`). A difference
is a failure unless `intended.toml` names it with its reason. It lives as long as the redesign.
"""
