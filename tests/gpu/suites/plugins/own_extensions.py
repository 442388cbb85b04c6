"""A plugin of pytest: each worker builds its C++ extensions in a folder of its own. Those of TestMemPool have one name for
several sources."""

import os


def pytest_configure(config):
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker:
        os.environ["TORCH_EXTENSIONS_DIR"] = os.path.join(os.environ["SUITE_EXTENSIONS"], worker)
