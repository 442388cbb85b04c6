"""A hook of MkDocs: links to files of the repository, which the site does not have, become their text
and path. tests/tidy checks that these files exist."""

import posixpath
import re

LINK = re.compile(r"(?<!!)\[([^]]*)\]\(([^)\s]+)\)")


def on_page_markdown(markdown, page, files, **_):
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def written(found):
        text, target = found[1], found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, target.split("#")[0]))
        inside = path.removeprefix("docs/")
        if inside != path and (inside.endswith(".md") or files.get_file_from_path(inside)):
            return found[0]
        return text if path.endswith(text.strip("`")) else f"{text} (`{path}`)"

    return LINK.sub(written, markdown)
