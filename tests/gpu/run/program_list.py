"""The programs that run_programs.py plays, and how each is compared."""

import importlib.util
import pathlib
from dataclasses import dataclass, field

# Where NVLink multicast is off in the environment, it stays off; results must not depend on it.
NCCL = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
EXACT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # Products come out the same each time.
JAX = {"XLA_FLAGS": "--xla_gpu_autotune_level=0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


@dataclass(frozen=True)
class Program:
    """`command` may name {python}, {programs}, {built}, {suites} and {seconds}.

    `compare` is a view of comparing.py. A program that `repeats` knows nothing of seconds and is run
    again until they are over. `moves` is False if all of its memory is the driver's, or may be where it
    is already; `hosts` if none of it may go to host memory.
    """

    name: str
    command: tuple
    compare: str = "exact"
    repeats: bool = False
    gpus: int = 1
    modules: tuple = ()
    environment: dict = field(default_factory=dict)
    smallest: str = ""
    options: tuple = ()  # Of `vmart run`.
    ignored: tuple = ()
    moves: bool = True
    hosts: bool = True
    limit_s: float = 180
    folder: str = "/tmp"  # Where it runs.
    exit: int | None = 0  # Of a bare run; None if any will do, as the runs are compared.


def python(name, script, *arguments, modules=("torch",), **others):
    return Program(name, ("{python}", "-B", f"{{programs}}/{script}.py", "--seconds", "{seconds}",
                          *arguments), modules=modules, **others)


def torch(name, script, *arguments, **others):
    environment = {**EXACT, **NCCL, **others.pop("environment", {})}
    return python(name, script, *arguments, environment=environment, **others)


def python_tests(name, suite, *arguments, **others):
    """Tests of others, which pytest runs in their folder."""
    return Program(name, ("{python}", "-B", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider",
                          "--tb=line", *arguments),
                   **{"compare": "pytest", "repeats": True, "folder": f"{{suites}}/{suite}", "exit": None,
                      **others})


def compiled(name, *arguments, **others):
    return Program(f"nvcc.{name}", (f"{{built}}/{name}", "{seconds}", *arguments), **others)


OURS = (
    compiled("every_call"),
    compiled("every_call_shared"),
    compiled("every_call_per_thread"),
    torch("torch.training", "torch_training"),
    torch("torch.training_async", "torch_training", options=("--pools",),
          environment={"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}),
    torch("torch.training_expandable", "torch_training", options=("--vmm",),
          environment={"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    torch("torch.graphs", "torch_graphs"),
    torch("torch.compiled", "torch_compiled", modules=("torch", "triton"), limit_s=300),
    torch("torch.loader", "torch_loader", limit_s=300),
    torch("torch.ipc", "torch_ipc"),
    torch("torch.ddp", "torch_ddp", gpus=2, limit_s=240),
    torch("torch.two_gpus", "torch_two_gpus", gpus=2),
    python("triton.kernels", "triton_kernels", modules=("torch", "triton")),
    python("cupy.arrays", "cupy_arrays", modules=("cupy",)),
    python("jax.steps", "jax_steps", modules=("jax",), environment=JAX, options=("--vmm",)),
    python("jax.steps_platform", "jax_steps", modules=("jax",),
           environment={**JAX, "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
    python("numba.kernels", "numba_kernels", modules=("numba",)),
    python("nccl.one_process", "nccl_one_process", modules=("torch",), gpus=2, environment=NCCL),
    torch("nccl.two_processes", "nccl_two_processes", gpus=2, limit_s=240),
    python("transformers.text", "transformers_text", modules=("torch", "transformers"),
           environment={**EXACT, "TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}, limit_s=300),
)


def case(name, *arguments, variant="", **others):
    return Program(f"case.{name}{variant}", ("env", "CASE_SECONDS={seconds}", f"{{built}}/cases/{name}", *arguments),
                   **{"limit_s": 90, **others})


# Each prints OK, or says what is wrong.
CASES = (
    case("alias_for_graphs", options=("--vmm",)),
    case("broken_context_ends"),
    case("captures_and_calls_beside"),
    # The driver may refuse that bare, too. It restores no process that has VMM memory at the host.
    case("checkpoint_and_restore", exit=None, moves=False, hosts=False),
    case("export_after_use", options=("--vmm",)),
    case("handle_for_one_visible_gpu", gpus=2),
    case("nccl_registered", gpus=2, environment={**NCCL, "NCCL_GRAPH_REGISTER": "1"}, exit=None),
    case("nccl_registered", "vmm", variant="_vmm", gpus=2, options=("--vmm",),
         environment={**NCCL, "NCCL_GRAPH_REGISTER": "1"}, exit=None),
    case("plugin_with_deepbind"),
    case("plugin_with_deepbind", "plain", variant="_plain"),
    case("plugin_with_deepbind", variant="_shim", options=("--way", "shim")),
    *(case("refused", work, variant=f"_{work}", moves=False, gpus=2 if work == "primary" else 1)
      for work in ("broken", "captures", "orphans", "primary", "mappings", "synchronous")),
)


def choose(names, places, gpus):
    """Returns the programs that can run here, and the names of others with the reason."""
    chosen, left_out = [], []
    for program in OURS + CASES + others():
        if not is_named(program.name, names):
            continue
        why = missing(program, places, gpus)
        if why:
            left_out.append((program.name, why))
        else:
            chosen.append(program)
    return chosen, left_out


def others():
    import bundle_list  # Imports this module.
    return bundle_list.OTHERS


def is_named(name, names):
    wanted = [one for one in names if not one.startswith("no:")]
    unwanted = [one[3:] for one in names if one.startswith("no:")]
    return (not wanted or any(one in name for one in wanted)) and \
        not any(one in name for one in unwanted)


def missing(program, places, gpus):
    """Why it cannot run here; empty if it can."""
    if gpus < program.gpus:
        return f"needs {program.gpus} GPUs, there are {gpus}"
    for module in program.modules:
        if importlib.util.find_spec(module) is None:
            return f"needs {module}"
    for part in (*program.command, program.folder):
        path = part.format(python="", seconds="", **places)
        if part.startswith(("{programs}", "{built}", "{suites}")) and \
                not pathlib.Path(path).exists():
            return f"there is no {path}"
    return ""
