// Goal: in a program that uses the library by its calls alone, every way to a function of the
// driver that looks memory up leads to a guard, whenever the program came by it; where the system
// does not let it, moves in the background are refused. Method: the simulated libcuda.so.1;
// functions are compared by the library that they are in.
#include "base/loader/new_libraries.hpp"
#include "gpu/copies/copies.hpp"

#include <vma/vma.hpp>

#include <cuda.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {
std::atomic<bool> pages_stay_protected{false};
}  // namespace

/// The system's, unless the test says so: stands for one that does not let code be changed.
extern "C" __attribute__((visibility("default"))) int mprotect(void* begin, std::size_t bytes,
                                                               int protection) noexcept {
  if (pages_stay_protected && (protection & PROT_WRITE) != 0) {
    errno = EACCES;
    return -1;
  }
  return static_cast<int>(syscall(SYS_mprotect, begin, bytes, protection));
}

namespace vma {
namespace {

bool is_in(const void* function, std::string_view library) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr &&
         std::string_view(info.dli_fname).find(library) != std::string_view::npos;
}
bool is_guard(const void* function) {
  return is_in(function, "libvmart.so");
}
bool is_drivers(const void* function) {
  return is_in(function, "libcuda.so");
}

bool copies_or_fills(std::string_view name) {
  for (const std::string_view begin :
       {"cuMemcpy", "cuMemset", "cuStreamWrite", "cuGraphAddMem", "cuGraphInst", "cuPointerGet"}) {
    if (name.starts_with(begin)) return true;
  }
  return false;
}

/// The imports of one library of the process by which it copies or fills.
struct Imports {
  explicit Imports(const void* in_library) : inside(in_library) {
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
          auto& out = *static_cast<Imports*>(data);
          const LoadedLibrary library(*info);
          if (!library.contains(out.inside)) return 0;
          library.for_each_slot([&](const LoadedLibrary::Slot& slot) -> const void* {
            if (!copies_or_fills(slot.name)) return nullptr;
            ++out.count;
            if (!is_guard(slot.bound)) out.others += std::string(slot.name) + " ";
            return nullptr;
          });
          return 1;
        },
        this);
  }
  const void* const inside;
  int count = 0;
  std::string others;  ///< Those that lead elsewhere.
};

/// A copy of kept_functions.cpp in the process.
struct Library {
  Library(const char* path, int flags) : handle(dlopen(path, flags | RTLD_LOCAL)) {
    if (handle == nullptr) ADD_FAILURE() << dlerror();
  }
  template <typename Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(handle, name));
  }
  const void* kept(int which) const { return find<const void* (*)(int)>("kept_function")(which); }
  const void* linked(int which) const {
    return find<const void* (*)(int)>("linked_function")(which);
  }
  int look_up() const { return find<int (*)()>("look_functions_up")(); }
  Imports imports() const { return Imports(dlsym(handle, "look_functions_up")); }
  void* const handle;
};

void* driver_library() {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

TEST(CopyGuards, StandInTheImportsOfTheProgram) {
  ASSERT_FALSE(driver_kinds().empty());  // It is linked with all of these calls.
  runtime();
  const Imports imports(reinterpret_cast<const void*>(&driver_kinds));
  EXPECT_GT(imports.count, 10);
  EXPECT_EQ(imports.others, "");
}

TEST(CopyGuards, AreWhatIsLookedUpAfterwards) {
  runtime();
  void* const library = driver_library();
  EXPECT_TRUE(is_guard(dlsym(library, "cuMemcpyAsync")));
  EXPECT_TRUE(is_guard(dlsym(library, "cuMemcpyDtoD_v2_ptds")));
  EXPECT_TRUE(is_guard(dlsym(RTLD_DEFAULT, "cuMemsetD32_v2")));
  EXPECT_TRUE(is_guard(dlsym(library, "cuStreamEndCapture"))) << "of copies that are captured";
  for (const char* name : {"cuCtxCreate_v2", "cuDevicePrimaryCtxRetain", "cuGreenCtxCreate"}) {
    EXPECT_TRUE(is_guard(dlsym(library, name))) << name << ": no stop beside it";
  }
  for (const int version : {7000, 11030, 12000, CUDA_VERSION}) {
    for (const auto flags :
         {CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}) {
      void* found = nullptr;
      CUdriverProcAddressQueryResult status{};
      ASSERT_EQ(cuGetProcAddress("cuMemcpyDtoHAsync", &found, version, flags, &status), 0);
      EXPECT_TRUE(is_guard(found)) << version << " " << flags;
    }
  }
}

TEST(CopyGuards, LeaveOtherFunctionsAlone) {
  runtime();
  void* const library = driver_library();
  for (const char* name : {"cuLaunchKernel", "cuGraphLaunch", "cuMemAlloc_v2", "cuStreamCreate",
                           "cuCtxSetCurrent", "cuMemMap"}) {
    EXPECT_TRUE(is_drivers(dlsym(library, name))) << name;
  }
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  ASSERT_EQ(cuGetProcAddress("cuMemAlloc", &found, CUDA_VERSION, 0, &status), 0);
  EXPECT_TRUE(is_drivers(found));
  EXPECT_EQ(dlsym(library, "cuNothing"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
}

TEST(CopyGuards, ReplaceWhatALibraryHasLookedUpBefore) {
  ASSERT_FALSE(runtime_is_open());
  const Library library(VMART_KEPT_FUNCTIONS, RTLD_LAZY);
  const int kept = library.look_up();
  for (int which = 0; which < kept; ++which) ASSERT_TRUE(is_drivers(library.kept(which))) << which;
  ASSERT_TRUE(is_drivers(library.linked(0)));
  runtime();
  for (int which = 0; which < kept; ++which) EXPECT_TRUE(is_guard(library.kept(which))) << which;
  EXPECT_TRUE(is_guard(library.linked(0))) << "in data that the loader has protected";
  EXPECT_TRUE(is_drivers(library.linked(1)));
  const Imports imports = library.imports();
  EXPECT_GT(imports.count, 0) << "not filled yet";
  EXPECT_EQ(imports.others, "");
}

TEST(CopyGuards, StandInLibrariesThatAreOpenedLater) {
  runtime();
  // One file is one library of the process, so each way has a file of its own.
  const std::string path = VMART_KEPT_FUNCTIONS_DEEP;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const Library deep(path.c_str(), RTLD_NOW | RTLD_DEEPBIND);
  // The first look-up comes after the check of the imports: the library is guarded when it is open.
  const link_map* map = nullptr;
  ASSERT_EQ(dlinfo(deep.handle, RTLD_DI_LINKMAP, &map), 0);
  const Imports imports(map->l_ld);
  EXPECT_GT(imports.count, 0);
  EXPECT_EQ(imports.others, "");
  EXPECT_TRUE(is_guard(deep.linked(0)));
  const int kept = deep.look_up();
  for (int which = 0; which < kept; ++which) EXPECT_TRUE(is_guard(deep.kept(which))) << which;
  // Which file that is, the loader finds out by its caller's paths.
  const Library named(VMART_KEPT_FUNCTIONS_NAME, RTLD_LAZY);
  EXPECT_EQ(named.imports().others, "");
  EXPECT_TRUE(is_guard(named.linked(0)));
}

TEST(CopyGuards, StandInLibrariesWithoutALookUpWhenAMoveBegins) {
  void* const memory = alloc(4 << 20, gpu(0));
  void* const named = dlopen(VMART_KEPT_FUNCTIONS_NAME, RTLD_LAZY | RTLD_LOCAL);
  const link_map* map = nullptr;
  ASSERT_EQ(dlinfo(named, RTLD_DI_LINKMAP, &map), 0);
  EXPECT_NE(Imports(map->l_ld).others, "") << "which file that is, depends on who calls";
  migrate(memory, host(0));
  EXPECT_EQ(Imports(map->l_ld).others, "");
  free(memory);
}

TEST(CopyGuards, LetNoHoldEndACapture) {
  setenv("VMART_STOP", "gate", 1);  // Before anything is opened: each test is a process of its own.
  void* const memory = alloc(4 << 20, gpu(0));
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  Migration migration = migrate_async(memory, host(0));
  const auto waits = [] { return runtime().stats().gates_given_up_by_reason["capture"] > 0; };
  while (!waits() && !migration.done()) std::this_thread::yield();
  EXPECT_FALSE(migration.done());
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(migration.wait().outcome, Outcome::done);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  // A stream that is destroyed captures no more.
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_THROW(migrate(memory, gpu(0)), Error);
  cuStreamDestroy(stream);
  EXPECT_EQ(migrate(memory, gpu(0)).outcome, Outcome::done);
  free(memory);
  cuDevicePrimaryCtxRelease(0);
}

TEST(CopyGuards, LetASuspensionPassACapture) {
  void* const memory = alloc(4 << 20, gpu(0));
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  // A busy computer may need several tries to find out that work can be suspended.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  StopKind stop = StopKind::gate;
  for (int i = 0; stop != StopKind::suspension && std::chrono::steady_clock::now() < end; ++i)
    stop = migrate(memory, i % 2 == 0 ? host(0) : gpu(0)).stop;
  ASSERT_EQ(stop, StopKind::suspension);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  const MigrationReport report = migrate_async(memory, gpu(1)).wait();
  EXPECT_EQ(report.outcome, Outcome::done);
  EXPECT_EQ(report.stop, StopKind::suspension);
  EXPECT_EQ(migrate(memory, gpu(0)).stop, StopKind::suspension);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  free(memory);
  cuDevicePrimaryCtxRelease(0);
}

TEST(CopyGuards, LetTheLoaderOpenAFileOnceThatIsNoLibrary) {
  runtime();
  const std::string path = testing::TempDir() + "no_library_" + std::to_string(getpid());
  std::ofstream(path) << "text";
  const int events = inotify_init1(IN_NONBLOCK);
  ASSERT_GE(inotify_add_watch(events, path.c_str(), IN_OPEN), 0);
  EXPECT_EQ(dlopen(path.c_str(), RTLD_NOW), nullptr);
  EXPECT_NE(std::string_view(dlerror()).find("no_library"), std::string_view::npos);
  std::array<inotify_event, 8> opened;
  EXPECT_EQ(read(events, opened.data(), sizeof opened), ssize_t{sizeof(inotify_event)});
  close(events);
  unlink(path.c_str());
}

TEST(CopyGuards, LetAForkedChildLookFunctionsUp) {
  runtime();
  struct {
    std::atomic<bool> inside{false}, leave{false};
  } walk;
  std::thread other([&walk] {
    dl_iterate_phdr(
        [](dl_phdr_info*, std::size_t, void* data) {
          auto& state = *static_cast<decltype(walk)*>(data);
          state.inside = true;
          state.inside.notify_all();
          state.leave.wait(false);
          return 1;
        },
        &walk);
  });
  walk.inside.wait(false);
  const pid_t child = fork();  // The other thread has a lock of the loader.
  if (child == 0) {
    alarm(60);
    _exit(is_guard(dlsym(RTLD_DEFAULT, "cuMemcpyAsync")) ? 0 : 1);
  }
  walk.leave = true;
  walk.leave.notify_all();
  other.join();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Whole pages of the program's static memory.
struct alignas(4096) StaticPages {
  std::array<const void*, 512> frozen, hidden, written, untouched;
};
StaticPages static_pages;

TEST(CopyGuards, LeaveMemoryAloneThatTheProgramHasProtected) {
  void* const function = dlsym(driver_library(), "cuMemcpyAsync");
  StaticPages& pages = static_pages;
  pages.frozen[1] = pages.hidden[1] = pages.written[1] = function;
  ASSERT_EQ(mprotect(&pages.frozen, sizeof pages.frozen, PROT_READ), 0);
  ASSERT_EQ(mprotect(&pages.hidden, sizeof pages.hidden, PROT_NONE), 0);
  void* const memory = alloc(4 << 20, gpu(0));
  EXPECT_TRUE(is_guard(pages.written[1]));
  EXPECT_EQ(pages.frozen[1], function);
  try {
    migrate_async(memory, host(0), {.scope = StopScope::hold}).wait();
    FAIL() << "it has moved";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("calls of the program"), std::string_view::npos)
        << error.what();
  }
  free(memory);
}

TEST(CopyGuards, NeedNoPageThatNobodyHasTouched) {
  runtime();
  unsigned char resident = 0;
  ASSERT_EQ(mincore(&static_pages.untouched, sizeof static_pages.untouched, &resident), 0);
  EXPECT_EQ(resident & 1, 0);
}

TEST(NewLibraries, AreVisitedOnceAndAgainOnlyIfTheyAreOpenedAgain) {
  NewLibraries libraries;
  const auto visited = [&] {
    std::vector<std::string> files;
    libraries.visit(&dlopen, [&](const LoadedLibrary& library) noexcept {
      files.emplace_back(library.file());
      return true;
    });
    return files;
  };
  const auto file_of = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const std::string deep = file_of(VMART_KEPT_FUNCTIONS_DEEP), lazy = file_of(VMART_KEPT_FUNCTIONS);
  const std::vector<std::string> one{deep}, other{lazy}, both{lazy, deep};
  EXPECT_GT(visited().size(), 3u);
  EXPECT_TRUE(visited().empty());
  void* first = dlopen(VMART_KEPT_FUNCTIONS_DEEP, RTLD_NOW | RTLD_LOCAL);
  EXPECT_EQ(visited(), one);
  void* second = dlopen(VMART_KEPT_FUNCTIONS, RTLD_LAZY | RTLD_LOCAL);
  EXPECT_EQ(visited(), other);
  dlclose(first);
  EXPECT_TRUE(visited().empty());
  first = dlopen(VMART_KEPT_FUNCTIONS_DEEP, RTLD_NOW | RTLD_LOCAL);
  EXPECT_EQ(visited(), one) << "where it was, with slots that the loader has filled anew";
  dlclose(first);
  dlclose(second);
  second = dlopen(VMART_KEPT_FUNCTIONS, RTLD_LAZY | RTLD_LOCAL);
  first = dlopen(VMART_KEPT_FUNCTIONS_DEEP, RTLD_NOW | RTLD_LOCAL);
  EXPECT_EQ(visited(), both);
  dlclose(second);
  EXPECT_TRUE(visited().empty());
  libraries.forget();
  EXPECT_GT(visited().size(), 3u);
  dlclose(first);
}

TEST(CopyGuards, PassArgumentsAndResultsOn) {
  auto* const memory = static_cast<unsigned char*>(alloc(4 << 20, gpu(0)));
  ASSERT_EQ(begin_driver(), 0);
  const Library library(VMART_KEPT_FUNCTIONS, RTLD_LAZY);
  const auto fill = library.find<int (*)(CUdeviceptr, std::size_t)>("fill_by_import");
  const auto begin = reinterpret_cast<CUdeviceptr>(memory);
  ASSERT_EQ(fill(begin, 64), CUDA_SUCCESS);
  unsigned char bytes[64] = {};
  ASSERT_EQ(cuMemcpyDtoH(bytes, begin, sizeof bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes[63], 7);
  EXPECT_EQ(cuMemcpyDtoH(bytes, 0x10, sizeof bytes), CUDA_ERROR_INVALID_VALUE);
  free(memory);
}

TEST(CopyGuards, StayWhenARuntimeClosesAndAnotherOneOpens) {
  { const Runtime first; }
  EXPECT_TRUE(is_guard(dlsym(driver_library(), "cuMemcpyAsync")));
  const Runtime second;
  EXPECT_TRUE(is_guard(dlsym(driver_library(), "cuMemcpyAsync")));
  EXPECT_EQ(Imports(reinterpret_cast<const void*>(&driver_kinds)).others, "");
}

TEST(CopyGuards, StandInTheWayOfNoMove) {
  void* const memory = alloc(4 << 20, gpu(0));
  MigrateOptions options;
  options.scope = StopScope::hold;
  EXPECT_NO_THROW(migrate_async(memory, host(0), options).wait());
  EXPECT_NO_THROW(migrate(memory, gpu(0)));
  free(memory);
}

TEST(CopyGuards, ThatCannotBePutInPlaceRefuseMovesInTheBackground) {
  void* const memory = alloc(4 << 20, gpu(0));
  pages_stay_protected = true;
  const Library library(VMART_KEPT_FUNCTIONS_DEEP, RTLD_NOW);
  pages_stay_protected = false;
  MigrateOptions options;
  options.scope = StopScope::hold;
  try {
    migrate_async(memory, host(0), options).wait();
    FAIL() << "it has moved";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    const std::string_view text = error.what();
    for (const char* part : {"kept_functions", "Permission denied", "Open vmart before",
                             "vmart run", "vma::CopyScope", "VMART_COPY_GUARDS=0"}) {
      EXPECT_NE(text.find(part), text.npos) << part << " is not in: " << text;
    }
  }
  options.nothing_runs = true;
  EXPECT_NO_THROW(migrate_async(memory, host(0), options).wait());
  EXPECT_NO_THROW(migrate(memory, gpu(0))) << "it is its caller's own copies that could fail";
  free(memory);
}

}  // namespace
}  // namespace vma
