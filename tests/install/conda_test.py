#!/usr/bin/env python3
"""conda_test.py --work DIR: rattler-build accepts the conda recipe and renders it for both machines, and it asks for the
versions that the build asks for. It is not built: that takes the packages of a conda channel. Installs rattler-build's
library in DIR, from PyPI."""

import argparse
import pathlib
import re
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = ROOT / ".ci/conda/recipe.yaml"
EXIT_SKIPPED = 77
VARIANT = "python: ['3.12']\ncxx_compiler: ['gxx']\nc_stdlib: ['sysroot']\n"
# What CMake calls what conda calls otherwise.
NAMES = {"boost": "libboost-headers", "cmake": "cmake", "fmt": "fmt"}


def wanted_versions():
    """By conda's names, the least versions that CMakeLists.txt and pyproject.toml name."""
    build = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    wanted = {"cmake": re.search(r"cmake_minimum_required\(VERSION (\d+\.\d+)", build)[1]}
    for name, version in re.findall(r"^vmart_require\((\w+) ([\d.]+) ", build, re.MULTILINE):
        if name.lower() in NAMES:
            wanted[NAMES[name.lower()]] = version
    package = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted |= re.findall(r'"(scikit-build-core|nanobind)>=([\d.]+)"', package)
    return wanted


def check(rattler):
    recipe = rattler.Stage0Recipe.from_file(str(RECIPE))
    version = re.search(r"project\(vmart VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    for platform in ("linux-64", "linux-aarch64"):
        settings = rattler.RenderConfig(platform=rattler.PlatformConfig(target_platform=platform))
        (rendered,) = recipe.render(rattler.VariantConfig.from_yaml(VARIANT), settings)
        package = rendered.recipe.package
        assert (package.name, str(package.version)) == ("vmart", version), (package.name, package.version, version)
    text = RECIPE.read_text(encoding="utf-8")
    for name, least in wanted_versions().items():
        assert f"- {name} >={least}\n" in text, f"{RECIPE.name} does not ask for {name} >={least}"
    for wrong in ("requirementz:", "  hosts:"):
        broken = text.replace({"requirementz:": "requirements:", "  hosts:": "  host:"}[wrong], wrong)
        try:
            rattler.Stage0Recipe.from_yaml(broken)
        except rattler.RattlerBuildError:
            continue
        raise AssertionError(f"a recipe with {wrong} is accepted, so this shows nothing")
    print(f"{RECIPE.relative_to(ROOT)}: accepted for linux-64 and linux-aarch64 by rattler-build {rattler.rattler_build_version()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    folder = parser.parse_args().work / "conda"
    try:
        import rattler_build
    except ImportError:
        if pathlib.Path(sys.prefix) == folder:
            raise
        venv.create(folder, with_pip=True)
        python = folder / "bin/python"
        fetched = subprocess.run([python, "-m", "pip", "install", "-q", "--require-hashes", "-r", ROOT / ".ci/python-conda.txt"], check=False)
        if fetched.returncode != 0:
            print("SKIPPED: needs PyPI")
            return EXIT_SKIPPED
        return subprocess.run([python, "-B", __file__, "--work", folder.parent], check=False).returncode
    check(rattler_build)
    return 0


if __name__ == "__main__":
    sys.exit(main())
