#!/usr/bin/env python3
"""What .ci/sbom.py says of made-up artefacts, and that a folder signed by .ci/sign.sh is refused once a byte differs."""

import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

CI = pathlib.Path(__file__).resolve().parents[2] / ".ci"
sys.path.insert(0, str(CI))
import sbom

VERIFY = ("ssh-keygen", "-Y", "verify", "-f", "signers", "-I", "packager", "-n", "vmart", "-s", "made/SHA256SUMS.sig")


class Artefacts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def licences(self, names):
        return {f"licenses/{name}.txt": name.encode() for name in names}

    def wheel(self, files):
        path = self.folder / "vmart-0.1.0-cp312-abi3-manylinux_2_31_x86_64.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return path

    def test_a_wheel_lists_its_files_and_what_is_compiled_in(self):
        path = self.wheel({"vmart/lib/libvmart.so": b"library"} | self.licences(sbom.BUNDLED))
        subprocess.run([sys.executable, "-B", CI / "sbom.py", path, "--version", "fmt=9.1.0"], check=True)
        found = json.loads(path.with_name(f"{path.name}.spdx.json").read_text(encoding="utf-8"))
        self.assertEqual(found["spdxVersion"], "SPDX-2.3")
        packages = {package["name"]: package for package in found["packages"]}
        self.assertEqual(packages["fmt"]["versionInfo"], "9.1.0")
        self.assertEqual(packages["fmt"]["licenseConcluded"], "MIT")
        self.assertNotIn("versionInfo", packages["zlib"])
        own = packages[path.name]
        self.assertEqual(own["versionInfo"], "0.1.0")
        self.assertEqual(own["checksums"][0]["checksumValue"], hashlib.sha256(path.read_bytes()).hexdigest())
        library = next(file for file in found["files"] if file["fileName"] == "./vmart/lib/libvmart.so")
        self.assertIn({"algorithm": "SHA256", "checksumValue": hashlib.sha256(b"library").hexdigest()}, library["checksums"])
        self.assertEqual(len(own["hasFiles"]), 1 + len(sbom.BUNDLED))
        named = {one["SPDXID"] for one in (*found["packages"], *found["files"], found)}
        for relation in found["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, named)

    def test_a_missing_licence_is_an_error(self):
        path = self.wheel(self.licences(set(sbom.BUNDLED) - {"zlib"}))
        with self.assertRaisesRegex(sbom.Wrong, "no text of the licence of zlib$"):
            sbom.sbom_of(path, {})

    def test_a_tarball_contains_nothing_of_python(self):
        path = self.folder / "vmart-0.1.0-linux-x86_64.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, data in self.licences(set(sbom.BUNDLED) - sbom.OF_PYTHON).items():
                entry = tarfile.TarInfo(f"./{name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        found = sbom.sbom_of(path, {})
        self.assertNotIn("nanobind", [package["name"] for package in found["packages"]])
        self.assertIn("zlib", [package["name"] for package in found["packages"]])

    def test_each_library_has_a_text(self):
        texts = {path.stem for path in (CI.parent / "runtime/packages/licences").glob("*.txt")}
        self.assertEqual(texts, set(sbom.BUNDLED))

    def test_a_signed_folder_is_refused_once_a_byte_differs(self):
        made = self.folder / "made"
        made.mkdir()
        (made / "artefact").write_bytes(b"right")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key"], check=True)
        key = (self.folder / "key.pub").read_text(encoding="ascii")
        (self.folder / "signers").write_text(f"packager {key}", encoding="ascii")
        subprocess.run([CI / "sign.sh", made, self.folder / "key"], check=True)
        self.assertTrue(self.is_right())
        (made / "artefact").write_bytes(b"wrong")
        self.assertFalse(self.is_right())
        (made / "artefact").write_bytes(b"right")
        sums = made / "SHA256SUMS"
        sums.write_bytes(sums.read_bytes().replace(b"artefact", b"artefacT"))
        self.assertFalse(self.is_right())

    def is_right(self):
        signed = subprocess.run(VERIFY, cwd=self.folder, input=(self.folder / "made/SHA256SUMS").read_bytes(), capture_output=True,
                                check=False)
        sums = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=self.folder / "made", capture_output=True,
                              check=False)
        return signed.returncode == 0 and sums.returncode == 0


if __name__ == "__main__":
    unittest.main()
