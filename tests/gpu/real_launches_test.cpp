// Goal: the memory used by launches of libraries is found: kernels of nvcc through cudart, and
// those of cuBLAS. Method: captures the launches in graphs, which have the exact handle and
// parameters of each node. All libraries are opened by name; tests are skipped if the machine lacks
// one.
#include "gpu/gpu_test.hpp"
#include "runtime/runtime_parts.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

/// A shared library; null if it is not installed.
void* library(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* found = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return found;
  }
  return nullptr;
}

/// Throws: std::runtime_error for a result other than 0.
template <typename... Arguments>
void call(void* library, const char* name, Arguments... arguments) {
  const auto found = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  if (found == nullptr) throw std::runtime_error(fmt::format("no {}", name));
  if (const int result = found(arguments...); result != 0) {
    throw std::runtime_error(fmt::format("{} returned {}", name, result));
  }
}

void* cuda() {
  static void* const found = library({"libcuda.so.1"});
  return found;
}

/// CUDA_KERNEL_NODE_PARAMS_v2. A launch has `parameters` or `extra`, or neither.
struct KernelNode {
  void* function = nullptr;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;  // Used if `function` is null.
  void* context = nullptr;

  const void* handle() const { return function != nullptr ? function : kernel; }
};

class GpuRealLaunches : public GpuTest<CudaMachine> {
 protected:
  void SetUp() override {
    GpuTest<CudaMachine>::SetUp();
    if (IsSkipped()) return;
    stream_ = parts_of(runtime()).machinery->launcher.bind(rig().stream(0));
    call(cuda(), "cuCtxPushCurrent_v2", pointer(stream_.context));
    for (void*& operand : operands_) operand = runtime().alloc(operand_bytes, gpu(0));
    static_cast<void>(uses());
  }
  void TearDown() override {
    if (is_none(stream_.context)) return;
    for (void* operand : operands_) runtime().free(operand);
    void* popped = nullptr;
    call(cuda(), "cuCtxPopCurrent_v2", &popped);
    GpuTest<CudaMachine>::TearDown();
  }

  template <typename Handle>
  static void* pointer(Handle handle) {
    return reinterpret_cast<void*>(static_cast<std::uint64_t>(handle));
  }
  void* stream() const { return pointer(stream_.handle); }

  /// The kernels of the work that `enqueue` enqueues on the stream; they never run.
  template <typename Enqueue>
  std::vector<KernelNode> captured(Enqueue&& enqueue) {
    constexpr int relaxed = 2, kernel_kind = 0;
    call(cuda(), "cuStreamBeginCapture_v2", stream(), relaxed);
    enqueue();
    void* graph = nullptr;
    call(cuda(), "cuStreamEndCapture", stream(), &graph);
    graphs_.push_back(graph);
    std::size_t count = 0;
    call(cuda(), "cuGraphGetNodes", graph, static_cast<void**>(nullptr), &count);
    std::vector<void*> nodes(count);
    call(cuda(), "cuGraphGetNodes", graph, nodes.data(), &count);
    std::vector<KernelNode> kernels;
    for (void* node : nodes) {
      int kind = -1;
      call(cuda(), "cuGraphNodeGetType", node, &kind);
      if (kind != kernel_kind) continue;
      KernelNode& kernel = kernels.emplace_back();
      call(cuda(), "cuGraphKernelNodeGetParams_v2", node, &kernel);
    }
    return kernels;
  }

  /// The allocations that launches pointed into.
  std::set<const void*> uses() {
    const Registry& registry = parts_of(runtime()).machinery->memory.registry();
    std::vector<LoggedUse> logged;
    parts_of(runtime()).uses->collect(logged, 1000);
    std::set<const void*> found;
    for (const LoggedUse& use : logged) {
      found.insert(to_pointer(registry.bounds(registry.find(use.address)->id)->begin));
    }
    return found;
  }
  void record(const KernelNode& kernel) {
    if (kernel.extra == nullptr) {
      return runtime().record_launch(kernel.handle(), kernel.parameters, gpu(0));
    }
    const void* block = nullptr;
    std::size_t size_bytes = 0;
    constexpr std::uintptr_t end = 0, buffer_pointer = 1, buffer_size = 2;
    for (void** entry = kernel.extra; reinterpret_cast<std::uintptr_t>(*entry) != end; entry += 2) {
      const auto what = reinterpret_cast<std::uintptr_t>(entry[0]);
      if (what == buffer_pointer) block = entry[1];
      if (what == buffer_size) size_bytes = *static_cast<const std::size_t*>(entry[1]);
    }
    runtime().record_launch(kernel.handle(), {static_cast<const std::byte*>(block), size_bytes},
                            gpu(0));
  }
  /// The memory that all of them use. Recorded twice, at first and from the cached parameters.
  std::set<const void*> uses_of(std::vector<KernelNode> kernels) {
    runtime().forget_kernels();
    for (const KernelNode& kernel : kernels) record(kernel);
    const std::set<const void*> first = uses();
    for (const KernelNode& kernel : kernels) record(kernel);
    EXPECT_EQ(uses(), first);
    return first;
  }
  /// In parentheses: with braces, the two iterators, which are pointers, would become elements.
  std::set<const void*> all_operands() const {
    return std::set<const void*>(operands_.begin(), operands_.end());
  }

  static constexpr std::size_t operand_bytes = 4 << 20;
  std::array<void*, 3> operands_{};
  BoundStream stream_{};
  std::vector<void*> graphs_;  // Kept, since they own the parameters of their nodes.
};

constexpr const char* nvcc_path = "PATH=$PATH:/usr/local/cuda/bin";

bool has_nvcc() {
  return std::system(fmt::format("{} command -v nvcc >/dev/null", nvcc_path).c_str()) == 0;
}

/// A library built with nvcc at run time, and its folder. Requires: `has_nvcc`.
class NvccLibrary {
 public:
  explicit NvccLibrary(const std::string& source) {
    std::string folder = (std::filesystem::temp_directory_path() / "vmart-nvcc-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = folder;
    const std::string command = fmt::format(
        "{0} nvcc -arch=native -shared -Xcompiler -fPIC {1} -o {2}/kernel.so >{2}/build.log 2>&1",
        nvcc_path, source, folder);
    if (std::system(command.c_str()) != 0) {
      std::ostringstream log;
      log << std::ifstream(folder_ / "build.log").rdbuf();
      problem_ = log.str();
      return;
    }
    handle_ = dlopen((folder_ / "kernel.so").c_str(), RTLD_NOW);
    if (handle_ == nullptr) problem_ = dlerror();
  }
  ~NvccLibrary() {
    std::error_code failed;
    std::filesystem::remove_all(folder_, failed);  // A loaded library stays loaded.
  }
  NvccLibrary(const NvccLibrary&) = delete;
  NvccLibrary& operator=(const NvccLibrary&) = delete;
  void* handle() const { return handle_; }
  const std::string& problem() const { return problem_; }  ///< Why the handle is null.

 private:
  std::filesystem::path folder_;
  std::string problem_;
  void* handle_ = nullptr;
};

TEST_F(GpuRealLaunches, OfNvccAreFoundByCapturedNodes) {
  if (!has_nvcc()) GTEST_SKIP() << "SKIPPED: no nvcc";
  const NvccLibrary made(VMART_LAUNCHED_KERNELS);
  ASSERT_NE(made.handle(), nullptr) << made.problem();
  const auto kernels = captured(
      [&] { call(made.handle(), "enqueue", stream(), operands_[0], operands_[1], operands_[2]); });
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(uses_of(kernels), all_operands());
}

/// cudart passes CUkernels to cuLaunchKernel; programs on the driver API pass CUfunctions.
TEST_F(GpuRealLaunches, OfNvccAreFoundByEitherKindOfHandle) {
  if (!has_nvcc()) GTEST_SKIP() << "SKIPPED: no nvcc";
  const NvccLibrary made(VMART_LAUNCHED_KERNELS);
  ASSERT_NE(made.handle(), nullptr) << made.problem();
  struct View {
    int rows;
    void* data;
    double scale;
  } view{1, operands_[1], 2.0};
  int count = 32;
  const void* parameters[] = {&operands_[0], &view, &count, &operands_[2]};
  for (const char* kind : {"kernel_of", "function_of"}) {
    SCOPED_TRACE(kind);
    void *handle = nullptr, *empty = nullptr;
    call(made.handle(), kind, &handle);
    call(made.handle(), (std::string("empty_") + kind).c_str(), &empty);
    const KernelParameters known = parts_of(runtime()).driver->kernel_parameters(handle);
    EXPECT_EQ(known.of_library, std::string(kind) == "kernel_of");
    EXPECT_EQ(known.list, (std::vector<ParameterInfo>{{0, 8}, {8, 24}, {32, 4}, {40, 8}}));
    EXPECT_TRUE(parts_of(runtime()).driver->has_parameters(handle, known));
    EXPECT_FALSE(parts_of(runtime()).driver->has_parameters(empty, known));
    for (int launch = 0; launch < 3; ++launch) {
      runtime().record_launch(handle, parameters, gpu(0));
      EXPECT_EQ(uses(), all_operands());
      runtime().record_launch(empty, nullptr, gpu(0));
      EXPECT_EQ(uses(), std::set<const void*>{});
    }
  }
}

/// The module is unloaded, and another one may get its handles.
TEST_F(GpuRealLaunches, OfModulesThatComeAndGoAreNeverThoseOfAnother) {
  for (int round = 0; round < 50; ++round) {
    // The pointer is the first parameter, or comes after some numbers.
    const int before = round % 5;
    std::string numbers;
    for (int i = 0; i < before; ++i) numbers += fmt::format(".param .u32 n{}, ", i);
    const std::string ptx = fmt::format(
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry body({}.param .u64 p)"
        "\n{{ ret; }}\n",
        numbers);
    void *module = nullptr, *function = nullptr;
    call(cuda(), "cuModuleLoadData", &module, static_cast<const void*>(ptx.c_str()));
    call(cuda(), "cuModuleGetFunction", &function, module, "body");
    int number = 7;
    std::vector<const void*> parameters(static_cast<std::size_t>(before), &number);
    parameters.push_back(&operands_[1]);
    for (int launch = 0; launch < 2; ++launch) {
      runtime().record_launch(function, parameters.data(), gpu(0));
      EXPECT_EQ(uses(), std::set<const void*>{operands_[1]}) << "round " << round;
    }
    call(cuda(), "cuModuleUnload", module);
  }
}

TEST_F(GpuRealLaunches, OfCublasAreFound) {
  void* cublas = library({"libcublas.so.13", "libcublas.so.12", "libcublas.so"});
  if (cublas == nullptr) GTEST_SKIP() << "SKIPPED: no libcublas";
  constexpr int size = 1024, no_transpose = 0;
  void* handle = nullptr;
  call(cublas, "cublasCreate_v2", &handle);
  call(cublas, "cublasSetStream_v2", handle, stream());
  const float one = 1, zero = 0;
  const auto kernels = captured([&] {
    call(cublas, "cublasSgemm_v2", handle, no_transpose, no_transpose, size, size, size, &one,
         static_cast<const void*>(operands_[0]), size, static_cast<const void*>(operands_[1]), size,
         &zero, operands_[2], size);
  });
  ASSERT_GT(kernels.size(), 0u);
  EXPECT_EQ(uses_of(kernels), all_operands()) << "of " << kernels.size() << " kernels";
  // 16-bit kernels for Hopper take tensor descriptors. Whether these contain addresses is up to the
  // library, and no promise covers it.
  constexpr int bf16 = 14, compute_32f = 68, default_algorithm = -1;
  const auto descriptors = captured([&] {
    call(cublas, "cublasGemmEx", handle, no_transpose, no_transpose, size, size, size,
         static_cast<const void*>(&one), static_cast<const void*>(operands_[0]), bf16, size,
         static_cast<const void*>(operands_[1]), bf16, size, static_cast<const void*>(&zero),
         operands_[2], bf16, size, compute_32f, default_algorithm);
  });
  fmt::print(
      "cublasSgemm: {} kernels; cublasGemmEx with bf16: {} kernels, {} of 3 operands found\n",
      kernels.size(), descriptors.size(), uses_of(descriptors).size());
  call(cublas, "cublasDestroy_v2", handle);
}

}  // namespace
}  // namespace vma
