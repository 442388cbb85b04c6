#!/usr/bin/env bash
# Builds the documentation as a site in build/site/html: the pages by MkDocs (Material), the API
# reference of the public headers by Doxygen. Installs what is missing. Any warning is an error.
set -euo pipefail
# shellcheck source=.ci/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/../.ci/setup.sh"

site=$root/build/site
venv=$deps/docs_venv

set_up_site() {
  mkdir -p "$deps"
  need_command python3 python3
  if [[ -x /usr/bin/python3 ]]; then python=/usr/bin/python3; fi
  need_command doxygen doxygen
  has_mkdocs || make_environment "$venv" "$root/.ci/python-docs.txt" ||
    missing+=("MkDocs (from PyPI: .ci/python-docs.txt)")
  stop_if_missing
}

has_mkdocs() {
  [[ -f $venv/lists ]] && cmp -s "$venv/lists" "$root/.ci/python-docs.txt" &&
    "$venv/bin/python" -c 'import mkdocs, material' 2>/dev/null
}

main() {
  set_up_site
  cd "$root"
  rm -rf "$site"
  mkdir -p "$site"
  cp -r docs "$site/docs"
  find runtime tests -name README.md -exec cp --parents {} "$site/docs" \;
  cp docs/site/site.css "$site/docs/site.css"
  rm -rf "$site/docs/site" "$site/docs/measurements"
  rm -f "$site"/docs/*.sh "$site"/docs/*.py
  say "the API reference"
  doxygen docs/site/Doxyfile
  say "the pages"
  NO_MKDOCS_2_WARNING=1 "$venv/bin/python" -m mkdocs build --strict --config-file docs/site/mkdocs.yml
  say "$site/html/index.html"
}

main "$@"
