"""wheel_check.py finds what is wrong with a wheel, and nothing in one that is right. wheel_check_test.py COMPILER

The wheels are made up: each has a small source tree, and one library as all of its objects."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

from wheel_check import BUILT, METADATA, NAME, SIZE_MAX, expected, wrong_in, wrong_libraries, wrong_versions

COMPILER = sys.argv.pop()
TAG = "cp312-abi3-manylinux_2_31_x86_64"
INFO = "vmart-0.1.0.dist-info"


def compile_object(target, *options, source="int vmart_made_up(void) { return 1; }\n"):
    subprocess.run([COMPILER, "-x", "c++", "-", "-x", "none", "-shared", "-fPIC", "-nostdlib", "-o", target, *options],
                   input=source, text=True, check=True)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.source = cls.folder / "source"
        for file in ("runtime/python/vmart/__init__.py", "include/vma/vma.hpp", "runtime/machine/machines/h200x2.json"):
            path = cls.source / file
            path.parent.mkdir(parents=True)
            path.touch()
        compile_object(cls.folder / "object.so", "-Wl,-s", "-Wl,-rpath,$ORIGIN")

    def setUp(self):
        self.name = f"vmart-0.1.0-{TAG}.whl"
        self.files = dict.fromkeys(BUILT | {f"{INFO}/{name}" for name in METADATA} | {
            "vmart/__init__.py", "vmart/include/vma/vma.hpp", "vmart/share/vmart/machines/h200x2.json",
            "vmart/_core.abi3.so", "vmart/_lab.abi3.so", "vmart/lib/libvmart.so.0.1"}, b"")
        self.files[f"{INFO}/WHEEL"] = f"Wheel-Version: 1.0\nTag: {TAG}\n".encode()
        self.put(self.folder / "object.so", "vmart/_core.abi3.so", "vmart/_lab.abi3.so", "vmart/lib/libvmart.so.0.1", "vmart/lib/libvmart-run.so",
                 "vmart/lib/libvmart-shim.so")

    def put(self, path, *files):
        self.files.update(dict.fromkeys(files, path.read_bytes()))

    def put_compiled(self, *options, file="vmart/lib/libvmart.so.0.1", **source):
        compile_object(self.folder / "wrong.so", *options, **source)
        self.put(self.folder / "wrong.so", file)

    def wrong(self, forbidden=()):
        wheel = self.folder / self.name
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in self.files.items():
                archive.writestr(name, data)
        return wrong_in(wheel, self.source, forbidden)

    def test_that_is_right_has_nothing_wrong(self):
        self.assertEqual(self.wrong(["/a/folder/of/the/build"]), [])

    def test_has_a_name_with_a_tag(self):
        self.name = "vmart-0.1.0-cp312-abi3-linux_x86_64.whl"
        self.assertEqual(self.wrong(), [f"{self.name} is no name of a wheel of vmart with a manylinux tag"])

    def test_says_within_what_its_name_says(self):
        self.files[f"{INFO}/WHEEL"] = b"Tag: cp312-abi3-linux_x86_64\n"
        self.assertEqual(self.wrong(), [f"WHEEL says ['cp312-abi3-linux_x86_64'], the name {TAG}"])

    def test_has_the_abi_of_its_python(self):
        for tag, what in (("cp311-cp310", "cp311 has no ABI cp310"),
                          ("cp311-abi3", "nanobind has a stable ABI from CPython 3.12 on")):
            with self.subTest(tag):
                self.name = f"vmart-0.1.0-{tag}-manylinux_2_31_x86_64.whl"
                self.files[f"{INFO}/WHEEL"] = f"Tag: {tag}-manylinux_2_31_x86_64\n".encode()
                self.assertIn(what, self.wrong())

    def test_lacks_nothing_and_has_nothing_more(self):
        del self.files["vmart/include/vma/vma.hpp"]
        self.files["vmart/lib/libfmt.so.9"] = b""
        self.assertEqual(self.wrong(), ["lacks vmart/include/vma/vma.hpp", "has vmart/lib/libfmt.so.9"])

    def test_is_small(self):
        self.files["vmart/bin/vmart"] = bytes(SIZE_MAX)
        self.assertRegex("\n".join(self.wrong()), f"^120[0-9]+ bytes, which is more than {SIZE_MAX}$")

    def test_searches_itself_only(self):
        for folder in ("lib", "/opt/lib", "$ORIGIN/../../.."):
            with self.subTest(folder):
                self.put_compiled("-Wl,-s", f"-Wl,-rpath,{folder}")
                self.assertEqual(self.wrong(), [f"vmart/lib/libvmart.so.0.1 searches [{folder}]"])

    def test_is_stripped(self):
        self.put_compiled("-g")
        found = self.wrong()
        self.assertIn("libvmart.so.0.1 has .symtab: it is not stripped", found)
        self.assertIn("libvmart.so.0.1 has .debug_info: it is not stripped", found)

    def test_names_no_folder_of_the_build(self):
        self.put_compiled("-Wl,-s", source='extern const char name[] = "/a/folder/of/the/build/vmart/base.cpp";')
        self.assertEqual(self.wrong(["/a/folder/of/the/build"]), ["vmart/lib/libvmart.so.0.1 names /a/folder/of/the/build"])

    def test_needs_no_other_libraries(self):
        compile_object(self.folder / "libother.so.1", "-Wl,-soname,libother.so.1")
        self.put_compiled("-Wl,-s", "-Wl,--no-as-needed", str(self.folder / "libother.so.1"))
        self.assertEqual(self.wrong(), ["libvmart.so.0.1 needs libother.so.1"])

    def test_needs_what_versions_its_system_has(self):
        (self.folder / "versions").write_text("GLIBC_2.31 { global: old; };\nGLIBC_2.32 { global: newer; };\n")
        compile_object(self.folder / "libc.so.6", "-Wl,-soname,libc.so.6", f"-Wl,--version-script={self.folder / 'versions'}",
                       source='extern "C" { void old() {} void newer() {} }')
        for call, found in (("old", []), ("newer", ["libvmart.so.0.1 needs GLIBC_2.32"])):
            with self.subTest(call):
                self.put_compiled("-Wl,-s", str(self.folder / "libc.so.6"),
                                  source=f'extern "C" void {call}(); void use() {{ {call}(); }}')
                self.assertEqual(self.wrong(), found)


class Printed(unittest.TestCase):
    """What readelf prints, read."""

    def test_versions_are_compared_by_their_numbers(self):
        needed = ("GLIBC_2.4", "GLIBC_2.31", "GLIBC_2.34", "GLIBC_PRIVATE", "GLIBCXX_3.4.9", "GLIBCXX_3.4.29",
                  "CXXABI_1.3.12", "CXXABI_1.3.13", "GCC_3.0", "GCC_12.0.0")
        printed = "\n".join(f"  0x0010:   Name: {name}  Flags: none  Version: {n}" for n, name in enumerate(needed))
        self.assertEqual(wrong_versions(printed, 31),
                         ["CXXABI_1.3.13", "GCC_12.0.0", "GLIBCXX_3.4.29", "GLIBC_2.34", "GLIBC_PRIVATE"])

    def test_a_library_is_of_the_system_or_of_the_wheel(self):
        printed = " 0x01 (NEEDED)  Shared library: [libvmart-driver.so]\n 0x01 (NEEDED)  Shared library: [libc.so.6]\n"
        self.assertEqual(wrong_libraries(printed, {"libvmart-driver.so"}), [])
        self.assertEqual(wrong_libraries(printed, set()), ["libvmart-driver.so"])

    def test_extensions_of_one_python_have_its_name(self):
        name = NAME.fullmatch("vmart-0.1.0-cp311-cp311-manylinux_2_31_x86_64.whl")
        files = expected(pathlib.Path(__file__).resolve().parents[2], name)
        self.assertIn("vmart/_core.cpython-311-x86_64-linux-gnu.so", files)
        self.assertIn("vmart/lab/page.css", files)


if __name__ == "__main__":
    unittest.main()
