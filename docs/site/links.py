"""A hook of MkDocs. A page lies in the site where it lies in docs/, and a README.md of runtime/ or tests/ where it lies
in the repository: links between them lead there. Links to other files of the repository, which the site does not have,
become their text and path. tests/tidy checks that these files exist."""

import posixpath
import re

LINK = re.compile(r"(!?)\[([^]]*)\]\(([^)\s]+)\)")
BESIDE_CODE = ("runtime/", "tests/")


def in_repository(page):
    return page if page.startswith(BESIDE_CODE) else posixpath.join("docs", page)


def in_site(path):
    return path.removeprefix("docs/")


def on_page_markdown(markdown, page, files, **_):
    own = page.file.src_uri
    folder = posixpath.dirname(in_repository(own))

    def written(found):
        image, text, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        target, mark, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(folder, target))
        there = in_site(path)
        if in_repository(there) == path and files.get_file_from_path(there):
            return f"{image}[{text}]({posixpath.relpath(there, posixpath.dirname(own) or '.')}{mark}{anchor})"
        if path.startswith("docs/") and path.endswith(".md"):
            return found[0]  # Which the site should have: MkDocs warns.
        return text if path.endswith(text.strip("`")) else f"{text} (`{path}`)"

    return LINK.sub(written, markdown)
