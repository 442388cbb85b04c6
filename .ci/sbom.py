#!/usr/bin/env python3
"""sbom.py ARTEFACT... [--version NAME=VERSION]...: what wheels, .deb packages and tarballs contain, as SPDX 2.3 in
ARTEFACT.spdx.json: each file with its sums, the libraries that were compiled in, with their licences, and the packages
that a .deb needs.

Fails if an artefact has no text of the licence of a library that it contains.
"""

import argparse
import datetime
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

# By the name of the text of the licence, in runtime/packages/licences: name, licence by SPDX, where it comes from.
BUNDLED = {"boost": ("Boost", "BSL-1.0", "https://www.boost.org"),
           "cli11": ("CLI11", "BSD-3-Clause", "https://github.com/CLIUtils/CLI11"),
           "fmt": ("fmt", "MIT", "https://github.com/fmtlib/fmt"),
           "gcc_runtime": ("libstdc++ and libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org"),
           "nanobind": ("nanobind", "BSD-3-Clause", "https://github.com/wjakob/nanobind"),
           "nvtx": ("NVTX", "Apache-2.0 WITH LLVM-exception", "https://github.com/NVIDIA/NVTX"),
           "robin_map": ("robin-map", "MIT", "https://github.com/Tessil/robin-map"),
           "zlib": ("zlib", "Zlib", "https://zlib.net")}
OF_PYTHON = {"nanobind", "robin_map"}
OF_DEBS = {"libvmart": {"boost", "fmt", "gcc_runtime", "nvtx"}, "libvmart-dev": {"boost", "fmt"},
           "vmart-tools": {"boost", "cli11", "fmt"}}


class Wrong(Exception):
    pass


def files_in_tar(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {entry.name.removeprefix("./"): archive.extractfile(entry).read() for entry in archive if entry.isfile()}


def deb_field(path, field):
    return subprocess.run(["dpkg-deb", "-f", path, field], capture_output=True, text=True, check=True).stdout.strip()


def files_of(path):
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    if path.suffix == ".deb":
        return files_in_tar(subprocess.run(["dpkg-deb", "--fsys-tarfile", path], capture_output=True, check=True).stdout)
    return files_in_tar(path.read_bytes())


def bundled_in(path):
    if path.suffix == ".whl":
        return set(BUNDLED)
    if path.suffix == ".deb":
        return OF_DEBS[deb_field(path, "Package")]
    return set(BUNDLED) - OF_PYTHON


def require_licences(path, files, bundled):
    texts = {pathlib.PurePath(name).stem for name in files if "licen" in name and name.endswith(".txt")}
    for name, data in files.items():
        if name.endswith("/copyright"):
            texts.update(re.findall(r"^--- (\w+)$", data.decode(), re.MULTILINE))
    if missing := sorted(bundled - texts):
        raise Wrong(f"{path.name} has no text of the licence of {', '.join(missing)}")


def identifier(kind, name):
    return f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


def package(kind, name, version, licence, origin="NOASSERTION"):
    described = {"SPDXID": identifier(kind, name), "name": name, "downloadLocation": origin, "filesAnalyzed": False,
                 "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION"}
    return described | ({"versionInfo": version} if version else {})


def described_file(number, name, data):
    return {"SPDXID": f"SPDXRef-File-{number}", "fileName": f"./{name}", "licenseConcluded": "NOASSERTION",
            "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": algorithm, "checksumValue": hashlib.new(algorithm.lower(), data).hexdigest()}
                          for algorithm in ("SHA1", "SHA256")]}


def own_package(path, files):
    version = re.search(r"[-_](\d+\.\d+\.\d+)", path.name)[1]
    sums = sorted(file["checksums"][0]["checksumValue"] for file in files)
    return package("Artefact", path.name, version, "Apache-2.0") | {
        "filesAnalyzed": True, "packageFileName": path.name, "hasFiles": [file["SPDXID"] for file in files],
        "licenseInfoFromFiles": ["NOASSERTION"],
        "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest()},
        "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}]}


def sbom_of(path, versions):
    contents = files_of(path)
    bundled = bundled_in(path)
    require_licences(path, contents, bundled)
    files = [described_file(number, name, contents[name]) for number, name in enumerate(sorted(contents))]
    own = own_package(path, files)
    inside = [package("Bundled", *BUNDLED[name][:1], versions.get(name), *BUNDLED[name][1:]) for name in sorted(bundled)]
    depends = deb_field(path, "Depends") if path.suffix == ".deb" else ""
    needed = [package("Needed", *(re.fullmatch(r"(\S+)(?: \((.*)\))?", one).groups()), "NOASSERTION")
              for one in filter(None, depends.split(", "))]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own), *((own["SPDXID"], "CONTAINS", one) for one in inside),
                 *((own["SPDXID"], "DEPENDS_ON", one) for one in needed)]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", path.stat().st_mtime))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = own["checksums"][0]["checksumValue"]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": path.name,
            "documentNamespace": f"urn:sha256:{digest}",
            "creationInfo": {"created": created, "creators": ["Organization: The vmart developers", "Tool: vmart-sbom"]},
            "packages": [own, *inside, *needed], "files": files,
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other["SPDXID"]}
                              for one, kind, other in relations]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefacts", nargs="+", type=pathlib.Path)
    parser.add_argument("--version", action="append", default=[], help="NAME=VERSION of a library compiled in")
    arguments = parser.parse_args()
    try:
        versions = dict(one.split("=", 1) for one in arguments.version)
        for path in arguments.artefacts:
            text = json.dumps(sbom_of(path, versions), indent=1) + "\n"
            path.with_name(f"{path.name}.spdx.json").write_text(text, encoding="utf-8")
    except Wrong as wrong:
        sys.exit(str(wrong))


if __name__ == "__main__":
    main()
